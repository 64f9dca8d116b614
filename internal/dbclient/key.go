package dbclient

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ScopedKey returns the key under which a client's Idempotency-Key goes to the
// orchestrator: that of two services, methods or paths never meets. An empty
// key stays empty.
func ScopedKey(service, method, path, key string) string {
	if key == "" {
		return ""
	}
	// Neither of the first three holds a bar where the next part could begin
	// differently: service and method are ours and the path is percent-encoded.
	sum := sha256.Sum256([]byte(service + "|" + method + "|" + path + "|" + key))
	return hex.EncodeToString(sum[:])
}

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
