package shell

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"rideshare/internal/sqltext"
)

// maxNested bounds how deep .read may be nested: a file may read itself.
const maxNested = 16

// levels are the read levels of the server, the default first.
var levels = []string{"weak", "none", "auto", "linearizable", "strong"}

// command is a dot command.
type command struct {
	name, args, help string
	// least and most bound the number of its arguments.
	least, most int
	run         func(ctx context.Context, out *bufio.Writer, args []string) error
}

func (s *shell) commands() []command {
	return []command{
		{".backup", "FILE", "Write the database to FILE, as an SQLite file", 1, 1, s.backup},
		{".dump", "FILE [T,..]", "Write the database, or the tables T, to FILE, as SQL", 1, 2, s.dump},
		{".help", "", "Show this list", 0, 0, s.help},
		{".indexes", "", "List the indexes", 0, 0, s.list("type='index'")},
		{".level", "L", "Set the reads' level: " + strings.Join(levels, ", "), 1, 1, s.setLevel},
		{".load", "FILE", "Load FILE: SQL, or an SQLite file into an empty database", 1, 1, s.load},
		{".members", "", "List the workers", 0, 0, s.members},
		{".mode", "MODE", "Set the form of results: " + strings.Join(Modes, ", "), 1, 1, s.setMode},
		{".quit", "", "End the shell", 0, 0, func(context.Context, *bufio.Writer, []string) error { return errQuit }},
		{".read", "FILE", "Run the statements and commands in FILE", 1, 1, s.read},
		{".schema", "[T]", "Show the CREATE statements of the database, or of table T", 0, 1, s.schema},
		{".status", "", "Show the state of the server", 0, 0, s.status},
		{".tables", "", "List the tables and views", 0, 0, s.list("type IN ('table','view')")},
		{".timer", "on|off", "Show how long each statement takes", 1, 1, s.setTimer},
	}
}

// command runs a line that begins with a dot.
func (s *shell) command(ctx context.Context, out *bufio.Writer, line string) error {
	words, err := fields(line)
	if err != nil {
		return err
	}
	for _, c := range s.commands() {
		if c.name != words[0] {
			continue
		}
		if n := len(words) - 1; n < c.least || n > c.most {
			return fmt.Errorf("usage: %s", strings.TrimSpace(c.name+" "+c.args))
		}
		return c.run(ctx, out, words[1:])
	}
	return fmt.Errorf("there is no command %s, .help lists them", words[0])
}

// fields splits a line at blanks. A field that contains blanks must be in single or double quotes.
func fields(line string) ([]string, error) {
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var word string
		if quote := line[:1]; quote == `"` || quote == "'" {
			var closed bool
			if word, line, closed = strings.Cut(line[1:], quote); !closed {
				return nil, fmt.Errorf("a quote %s is not closed", quote)
			}
		} else {
			stop := strings.IndexAny(line+" ", " \t")
			word, line = line[:stop], line[stop:]
		}
		words = append(words, word)
	}
	return words, nil
}

func (s *shell) help(_ context.Context, out *bufio.Writer, _ []string) error {
	for _, c := range s.commands() {
		if _, err := fmt.Fprintf(out, "%-18s  %s\n", c.name+" "+c.args, c.help); err != nil {
			return err
		}
	}
	return nil
}

func (s *shell) setMode(_ context.Context, _ *bufio.Writer, args []string) error {
	if !slices.Contains(Modes, args[0]) {
		return fmt.Errorf("a mode is one of %s", strings.Join(Modes, ", "))
	}
	s.mode = args[0]
	return nil
}

func (s *shell) setLevel(_ context.Context, _ *bufio.Writer, args []string) error {
	if !slices.Contains(levels, args[0]) {
		return fmt.Errorf("a level is one of %s", strings.Join(levels, ", "))
	}
	s.level = args[0]
	return nil
}

func (s *shell) setTimer(_ context.Context, _ *bufio.Writer, args []string) error {
	if args[0] != "on" && args[0] != "off" {
		return errors.New("a timer is on or off")
	}
	s.timer = args[0] == "on"
	return nil
}

// list returns a command that prints the names that the condition where selects, without those that SQLite and the
// server created.
func (s *shell) list(where string) func(context.Context, *bufio.Writer, []string) error {
	return func(ctx context.Context, out *bufio.Writer, _ []string) error {
		_, err := s.print(ctx, out, func(name string) string { return name }, `SELECT name FROM sqlite_master WHERE `+where+users+` ORDER BY name`)
		return err
	}
}

// users is a condition on sqlite_master that excludes the tables of SQLite and of the server, and what belongs to them.
const users = ` AND name NOT LIKE 'sqlite\_%' ESCAPE '\' AND tbl_name NOT LIKE 'rs\_%' ESCAPE '\'`

func (s *shell) schema(ctx context.Context, out *bufio.Writer, args []string) error {
	const texts = `SELECT sql FROM sqlite_master WHERE sql IS NOT NULL` + users
	if len(args) == 0 {
		_, err := s.print(ctx, out, sqltext.Terminated, texts+` ORDER BY rowid`)
		return err
	}
	shown, err := s.print(ctx, out, sqltext.Terminated, texts+` AND tbl_name=? COLLATE NOCASE ORDER BY rowid`, args[0])
	if err == nil && shown == 0 {
		return fmt.Errorf("no such table: %s", args[0])
	}
	return err
}

// print runs a query and prints its only column in the given form, one value a line, without a frame. It returns the
// number of rows.
func (s *shell) print(ctx context.Context, out *bufio.Writer, form func(string) string, sql string, values ...any) (int, error) {
	r, err := s.ask(ctx, sql, values...)
	if err != nil {
		return 0, err
	}
	for _, row := range r.Values {
		var text string
		if err = json.Unmarshal(row[0], &text); err == nil {
			err = s.text(out, form(text)+"\n")
		}
		if err != nil {
			return 0, err
		}
	}
	return len(r.Values), nil
}

// text prints a text. On a terminal it escapes control characters; elsewhere the text is unchanged.
func (s *shell) text(out *bufio.Writer, text string) error {
	if isTerminal(s.cfg.Out) {
		text = escape(text, unsafeButLayout)
	}
	_, err := out.WriteString(text)
	return err
}

// members shows the workers as rows.
func (s *shell) members(ctx context.Context, out *bufio.Writer, _ []string) error {
	var cluster struct {
		Members []map[string]json.RawMessage `json:"members"`
	}
	if err := s.fetch(ctx, call{method: http.MethodGet, path: "/api/v1/cluster"}, &cluster); err != nil {
		return err
	}
	r := &result{Columns: []string{"pid", "role", "container", "ready", "applied_seq", "lag"}}
	for _, member := range cluster.Members {
		row := make([]json.RawMessage, len(r.Columns))
		for i, name := range r.Columns {
			row[i] = member[name]
			if row[i] == nil {
				row[i] = json.RawMessage("null")
			}
		}
		r.Values = append(r.Values, row)
	}
	return s.show(out, r)
}

// status prints the server's status as it is, indented.
func (s *shell) status(ctx context.Context, out *bufio.Writer, _ []string) error {
	var status json.RawMessage
	if err := s.fetch(ctx, call{method: http.MethodGet, path: "/status"}, &status); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, status, "", "  "); err != nil {
		return err
	}
	return s.text(out, jsonSafe(text.String())+"\n")
}

// read runs a file.
func (s *shell) read(ctx context.Context, _ *bufio.Writer, args []string) error {
	if s.nested >= maxNested {
		return fmt.Errorf("files are read at most %d deep", maxNested)
	}
	f, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose.
	s.nested++
	defer func() { s.nested-- }()
	return s.script(ctx, args[0], f)
}
