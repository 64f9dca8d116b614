package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owns returns what reports whether a process of this machine had, at the call, the other end of a TCP connection
// over IPv4 loopback. The kernel's list of sockets is long, and read once.
func owns(pid int) func(end net.Conn) bool {
	inodes, ends := map[string]bool{}, map[[2]string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is right
	for _, link := range links {
		target, _ := os.Readlink(link) // "" for one that is closed by now
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	list, _ := os.ReadFile("/proc/net/tcp") // without it nobody owns anything
	for line := range strings.Lines(string(list)) {
		// sl local_address rem_address st queues timer retransmits uid timeout inode ...
		if f := strings.Fields(line); len(f) > 9 && inodes[f[9]] {
			ends[[2]string{f[1], f[2]}] = true
		}
	}
	return func(end net.Conn) bool {
		return ends[[2]string{kernelName(end.RemoteAddr()), kernelName(end.LocalAddr())}]
	}
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
