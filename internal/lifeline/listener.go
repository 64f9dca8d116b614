package lifeline

import (
	"errors"
	"fmt"
	"net"
)

// ErrNoListener is returned by Listener if the parent passed no listener.
var ErrNoListener = errors.New("no inherited listener")

// Listener returns the listener that the parent bound for this process. Connections made since then are waiting in
// it. The caller closes it.
//
// ErrNoListener: this process was not started by a launcher, or it has already taken the listener. Any other error
// means that the variable does not refer to a listener. Like Watch, it is called once, before other goroutines start
// processes.
func Listener() (net.Listener, error) {
	file, err := take(EnvListener)
	if err != nil {
		return nil, err
	}
	if file == nil {
		return nil, fmt.Errorf("%s is not set: %w", EnvListener, ErrNoListener)
	}
	listener, err := net.FileListener(file) // a copy that child processes do not inherit
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", EnvListener, err), file.Close())
	}
	if err := file.Close(); err != nil { // left open, it would keep the port after listener.Close
		return nil, errors.Join(fmt.Errorf("%s: %w", EnvListener, err), listener.Close())
	}
	return listener, nil
}
