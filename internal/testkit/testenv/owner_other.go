//go:build !linux

package testenv

import "net"

// owns works on Linux only.
func owns(int) func(net.Conn) bool { return func(net.Conn) bool { return false } }
