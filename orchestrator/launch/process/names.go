package process

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// findBinary returns the path of a program, or of the running program if name is empty.
func findBinary(name string) (string, error) {
	if name == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find the program that runs: %w", err)
		}
		return self, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("find program %s: %w", name, err)
	}
	return filepath.Abs(path)
}

// maxHostName keeps ids readable.
const maxHostName = 20

// hostName returns the beginning of the host's name, made fit for file names and host names.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "host" // ids stay unique without it
	}
	name, _, _ = strings.Cut(strings.ToLower(name), ".")
	fit := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, name)
	return strings.Trim(fit[:min(len(fit), maxHostName)], "-")
}

// runName distinguishes the workers of one launcher from those of all others. It has the second of the launcher's start,
// so that names sort, and 40 random bits, because a clock can be set back.
func runName(now time.Time) string {
	return strconv.FormatInt(now.Unix(), 36) + strings.ToLower(rand.Text()[:8])
}

// listen binds a listener that will be handed over; this process accepts nothing on it.
func listen(address string) (*net.TCPListener, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		_ = listener.Close()
		return nil, fmt.Errorf("listen on %s: %T has no file to hand over", address, listener)
	}
	return tcp, nil
}

// urlOf returns the base URL of a listener's address, without a slash at its end. The scheme is http by default.
func urlOf(scheme, address string) string { return cmp.Or(scheme, "http") + "://" + address }
