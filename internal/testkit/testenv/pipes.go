package testenv

import "net"

// Pipes is a listener for in-memory connections, for servers in a synctest bubble. Accept returns the connections
// sent to Conns, and net.ErrClosed once Conns is closed. Close does nothing.
type Pipes struct{ Conns chan net.Conn }

// Accept implements net.Listener.
func (p Pipes) Accept() (net.Conn, error) {
	if c, ok := <-p.Conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (p Pipes) Close() error { return nil }

// Addr implements net.Listener.
func (p Pipes) Addr() net.Addr { return &net.TCPAddr{} }
