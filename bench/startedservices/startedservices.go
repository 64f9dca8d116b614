// Package startedservices finds the services that `make services` started.
package startedservices

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Shared returns a variable of the services that `make services` started, such as RABBITMQ_URL or RABBITMQ_PID. An error
// means that they were not started.
func Shared(variable string) (string, error) {
	root, err := Checkout()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(root, ".services", "env")) //nolint:gosec // a file of this checkout
	if err != nil {
		return "", fmt.Errorf("nothing is started: %w", err)
	}
	if value := Value(string(text), variable); value != "" {
		return value, nil
	}
	return "", errors.New("not started")
}

// Value returns the value of name in lines of NAME=value, or "".
func Value(lines, name string) string {
	for line := range strings.Lines(lines) {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			return strings.Trim(strings.TrimSpace(v), "'")
		}
	}
	return ""
}

// Checkout returns the directory of go.mod, in or above the working directory.
func Checkout() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the checkout: %w", err)
	}
	for {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the checkout: %w", err)
		}
		dir = filepath.Dir(dir)
	}
}
