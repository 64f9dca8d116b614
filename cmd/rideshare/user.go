package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"rideshare/internal/httpapi"
	"rideshare/internal/passhash"
)

// maxPassword bounds a password in bytes. bcrypt and web browsers have lower limits.
const maxPassword = 1 << 10

// userCommand is `rideshare user`.
type userCommand struct {
	Name  string `arg:"" help:"Name of the user, or of the token."`
	Role  string `arg:"" enum:"read,write,admin" help:"read: queries; write: changes too; admin: everything."`
	Token bool   `help:"Make a random token instead, for programs: it is checked without a slow hash. It is shown once, on stderr."`
}

// Help implements kong's longer help.
func (*userCommand) Help() string {
	return `Prints a line for AUTH_FILE. It has a hash of the password or token, and neither can be found from it.

Examples:
  rideshare user ann write >> auth            asks for the password
  rideshare user ann write < file >> auth     takes the first line of the file
  rideshare user reports read --token >> auth`
}

// Run prints the line.
func (u *userCommand) Run(ctx context.Context, out *output) error {
	if err := httpapi.CheckName(u.Name); err != nil {
		return usagef("NAME: %v", err)
	}
	role, err := httpapi.ParseRole(u.Role)
	if err != nil {
		return usagef("ROLE: %v", err)
	}
	var line string
	if u.Token {
		var token string
		token, line = httpapi.NewToken(u.Name, role)
		_, err = fmt.Fprintf(out.stderr, "the token, which is not shown again: %s\n", token)
	} else {
		line, err = passwordLine(ctx, out.stderr, u.Name, role)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out.stdout, line)
	return err
}

// passwordLine asks for a password, twice at a terminal.
func passwordLine(ctx context.Context, prompts io.Writer, name string, role httpapi.Role) (string, error) {
	password, err := newPassword(ctx, prompts)
	if err == nil && (password == "" || len(password) > maxPassword) {
		err = fmt.Errorf("a password has 1 to %d bytes", maxPassword)
	}
	if err != nil {
		return "", usagef("%v", err)
	}
	var salt [passhash.SaltSize]byte
	_, _ = rand.Read(salt[:]) // crypto/rand.Read never fails, by its documentation.
	return fmt.Sprintf("user %s %s %s", name, role, passhash.Argon2id(password, salt, passhash.DefaultCost)), nil
}

func newPassword(ctx context.Context, prompts io.Writer) (string, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		line, err := bufio.NewReader(io.LimitReader(os.Stdin, maxPassword+2)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", fmt.Errorf("read the password: %w", err)
		}
		return strings.TrimRight(line, "\r\n"), nil
	}
	password, err := askPassword(ctx, prompts, "password: ")
	if err != nil {
		return "", err
	}
	again, err := askPassword(ctx, prompts, "again: ")
	if err == nil && again != password {
		err = errors.New("the two passwords differ")
	}
	return password, err
}

// askPassword reads a password from the terminal without showing it. It fails when ctx ends.
func askPassword(ctx context.Context, prompts io.Writer, prompt string) (string, error) {
	terminal := int(os.Stdin.Fd())
	before, err := term.GetState(terminal)
	if err != nil {
		return "", errors.New("there is no terminal to ask for the password")
	}
	if _, err = io.WriteString(prompts, prompt); err != nil {
		return "", err
	}
	var password []byte
	read := make(chan error, 1)
	go func() {
		var failed error
		password, failed = term.ReadPassword(terminal)
		read <- failed
	}()
	select {
	case err = <-read:
	case <-ctx.Done(): // the process ends, so the read may stay
		err = errors.Join(ctx.Err(), term.Restore(terminal, before))
	}
	_, _ = io.WriteString(prompts, "\n")
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(password), nil
}
