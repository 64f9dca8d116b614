package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owns reports whether a process of this machine has the other end of a TCP connection over IPv4 loopback.
func owns(pid int, end net.Conn) bool {
	inode, found := inodeOf(end.RemoteAddr(), end.LocalAddr())
	if !found {
		return false
	}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is right
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}

// inodeOf finds a socket by its addresses in the kernel's list.
func inodeOf(local, remote net.Addr) (string, bool) {
	list, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(list)) {
		// sl local_address rem_address st queues timer retransmits uid timeout inode ...
		if f := strings.Fields(line); len(f) > 9 && f[1] == kernelName(local) && f[2] == kernelName(remote) {
			return f[9], true
		}
	}
	return "", false
}

// kernelName is how the kernel writes an IPv4 address: the bytes in the order of a little-endian machine.
func kernelName(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	ip := tcp.IP.To4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], tcp.Port)
}
