//go:build !linux

package testenv

import "net"

// owns is known on Linux only.
func owns(int) func(net.Conn) bool { return func(net.Conn) bool { return false } }
