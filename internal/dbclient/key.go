package dbclient

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Credentials reads an AUTH_FILE and returns the Authorization header that its
// first line stands for: "bearer TOKEN" or "basic USER:PASSWORD". Empty lines
// and lines that start with # are skipped. A file without a line is an error,
// which never quotes the line.
func Credentials(r io.Reader) (string, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kind, secret, _ := strings.Cut(line, " ")
		secret = strings.TrimSpace(secret)
		switch {
		case strings.EqualFold(kind, "bearer") && secret != "":
			return "Bearer " + secret, nil
		case strings.EqualFold(kind, "basic") && strings.Contains(secret, ":"):
			return "Basic " + base64.StdEncoding.EncodeToString([]byte(secret)), nil
		}
		return "", errors.New("credentials are neither 'bearer TOKEN' nor 'basic USER:PASSWORD'")
	}
	if err := lines.Err(); err != nil {
		return "", fmt.Errorf("read credentials: %w", err)
	}
	return "", errors.New("credentials file has no line")
}
