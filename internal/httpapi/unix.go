package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// UnixScheme is the prefix of an address that is a socket's absolute path: unix:///run/part.sock.
const UnixScheme = "unix://"

// unixHost is the Host header of requests over a socket, which has no host name.
const unixHost = "socket"

// dialTimeout is how long Reach's transport tries to connect, handshakeTimeout the same for TLS. A host that is off refuses
// no connection.
const dialTimeout, handshakeTimeout = 2 * time.Second, 5 * time.Second

// socketMode allows only the owner and the group.
const socketMode = 0o660

// Listen listens on host:port or on a socket. It replaces a socket whose process is gone. A socket that accepts
// connections is an error, like a busy port.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, UnixScheme)
	if !unix {
		return listen(ctx, "tcp", address)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	listener, err := listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of %s: %w", path, err), listener.Close())
	}
	return listener, nil
}

func listen(ctx context.Context, network, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, network, address)
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err // the rest repeats the address
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// removeStale removes the socket of a process that was killed, if connections to it are refused.
func removeStale(ctx context.Context, path string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("listen on %s: another process serves it: %w", path, syscall.EADDRINUSE), conn.Close())
	case !errors.Is(err, syscall.ECONNREFUSED):
		return nil // no socket here; net.Listen reports other errors
	}
	if info, err := os.Lstat(path); err != nil || info.Mode().Type() != fs.ModeSocket {
		return nil //nolint:nilerr // no socket: net.Listen reports it
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old socket: %w", err)
	}
	return nil
}

// Reach returns how to call a server at an http:// URL or on a socket: the base URL, without a trailing slash, and a
// new transport. The error lists the allowed forms.
func Reach(address string) (base string, transport *http.Transport, err error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport = &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: 4, IdleConnTimeout: idleTimeout / 2, DisableCompression: true,
	}
	if path, unix := strings.CutPrefix(address, UnixScheme); unix && strings.HasPrefix(path, "/") {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
		return "http://" + unixHost, transport, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", nil, fmt.Errorf("%q is neither http://host:port nor unix:///path", address)
	}
	return strings.TrimSuffix(address, "/"), transport, nil
}
