package shell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Modes are the names of the forms in which rows are shown, the default first.
var Modes = []string{"table", "csv", "json", "line"}

// leastColumn is the smallest width, in characters, to which a column of a table is shortened. A table that does not fit
// with columns of this width is shown as lines.
const leastColumn = 4

// result is the result of a statement, as the server sends it.
type result struct {
	Columns      []string            `json:"columns"`
	Values       [][]json.RawMessage `json:"values"`
	RowsAffected int64               `json:"rows_affected"`
	Error        string              `json:"error"`
}

// view is how rows are shown.
type view struct {
	mode string
	// terminal: the output is a terminal. Then csv is escaped too, and tables fit the width, unless it is 0.
	terminal bool
	width    int
}

// render writes the rows of a result, if it has columns.
func render(w io.Writer, v view, r *result) error {
	if len(r.Columns) == 0 {
		return nil
	}
	for _, values := range r.Values {
		if len(values) != len(r.Columns) {
			return fmt.Errorf("the server sent %d values for %d columns", len(values), len(r.Columns))
		}
	}
	if v.mode == "json" {
		return renderJSON(w, r)
	}
	null := "NULL"
	if v.mode == "csv" {
		null = ""
	}
	exact := v.mode == "csv" && !v.terminal
	columns, rows, err := texts(r, null, func(char rune) bool { return !exact && unsafe(char) })
	if err != nil {
		return err
	}
	switch v.mode {
	case "csv":
		return renderCSV(w, columns, rows, r.Values)
	case "line":
		return renderLines(w, columns, rows)
	default:
		return renderTable(w, v.width, columns, rows)
	}
}

// texts returns columns and rows as text, with null for NULL. It escapes the characters for which bad is true.
func texts(r *result, null string, bad func(rune) bool) (columns []string, rows [][]string, err error) {
	for _, name := range r.Columns {
		columns = append(columns, escape(name, bad))
	}
	for _, values := range r.Values {
		row := make([]string, len(values))
		for i, raw := range values {
			text, err := value(raw, null)
			if err != nil {
				return nil, nil, fmt.Errorf("the server sent a value that is not one: %w", err)
			}
			row[i] = escape(text, bad)
		}
		rows = append(rows, row)
	}
	return columns, rows, nil
}

// renderJSON writes an array with an object for each row, one row on each line.
func renderJSON(w io.Writer, r *result) error {
	separator, pairs := "[", make([]string, len(r.Columns))
	for _, values := range r.Values {
		for i, raw := range values {
			key, keyErr := json.Marshal(r.Columns[i])
			text, err := jsonValue(raw)
			if err = errors.Join(keyErr, err); err != nil {
				return fmt.Errorf("the server sent a value that is not one: %w", err)
			}
			pairs[i] = jsonSafe(string(key)) + ":" + text
		}
		if _, err := fmt.Fprintf(w, "%s{%s}", separator, strings.Join(pairs, ",")); err != nil {
			return err
		}
		separator = ",\n"
	}
	last := "]\n"
	if len(r.Values) == 0 {
		last = "[]\n"
	}
	_, err := io.WriteString(w, last)
	return err
}

// renderCSV writes a line of column names and a line for each row. NULL is an empty field, and the empty text is "". No line is
// empty, since readers skip empty lines: the only field of a row is "" for NULL, too.
func renderCSV(w io.Writer, columns []string, rows [][]string, values [][]json.RawMessage) error {
	for n, row := range slices.Insert(rows, 0, columns) {
		fields := make([]string, len(row))
		for i, text := range row {
			if null := n > 0 && values[n-1][i][0] == 'n'; !null || len(row) == 1 {
				fields[i] = csvField(text)
			}
		}
		if _, err := fmt.Fprintln(w, strings.Join(fields, ",")); err != nil {
			return err
		}
	}
	return nil
}

// csvField returns a text as a field of CSV, in quotes if a reader needs them.
func csvField(text string) string {
	if text != "" && text != `\.` && text == strings.TrimSpace(text) && !strings.ContainsAny(text, "\",\r\n") {
		return text
	}
	return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
}

// renderLines writes each value on a line of its own, and an empty line between two rows.
func renderLines(w io.Writer, columns []string, rows [][]string) error {
	widest := 0
	for _, name := range columns {
		widest = max(widest, runewidth.StringWidth(name))
	}
	for n, row := range rows {
		if n > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		for i, text := range row {
			if _, err := fmt.Fprintf(w, "%s = %s\n", runewidth.FillLeft(columns[i], widest), text); err != nil {
				return err
			}
		}
	}
	return nil
}

// renderTable writes a table. If width is not 0, it shortens values so that a line has at most width characters. If that
// is not possible, it calls renderLines instead.
func renderTable(w io.Writer, width int, columns []string, rows [][]string) error {
	widths := make([]int, len(columns))
	for _, row := range append(rows, columns) {
		for i, text := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(text))
		}
	}
	if width > 0 && !fit(widths, width-len("| ")*len(columns)-len(" ")*len(columns)-len("|")) {
		return renderLines(w, columns, rows)
	}
	for _, row := range slices.Concat([][]string{nil, columns, nil}, rows, [][]string{nil}) {
		if _, err := fmt.Fprintln(w, tableLine(row, widths)); err != nil {
			return err
		}
	}
	return nil
}

// fit makes the widest columns narrower until all need at most room characters, and reports whether that is possible.
func fit(widths []int, room int) bool {
	for limit := room; limit >= leastColumn; limit-- {
		sum := 0
		for _, n := range widths {
			sum += min(n, limit)
		}
		if sum <= room {
			for i, n := range widths {
				widths[i] = min(n, limit)
			}
			return true
		}
	}
	return false
}

// tableLine returns a row as a line of a table. For a nil row it returns the separator line.
func tableLine(row []string, widths []int) string {
	var line strings.Builder
	for i, width := range widths {
		if row == nil {
			line.WriteString("+" + strings.Repeat("-", width+2))
			continue
		}
		text := runewidth.Truncate(row[i], width, "…")
		line.WriteString("| " + runewidth.FillRight(text, width) + " ")
	}
	if row == nil {
		return line.String() + "+"
	}
	return line.String() + "|"
}
