package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// owns returns a function that reports whether, at the time of the call to owns, a process of this machine had the
// other end of a TCP connection over IPv4 loopback. The kernel's list of sockets is long, so it is read only once.
func owns(pid int) func(end net.Conn) bool {
	inodes, ends := map[string]bool{}, map[[2]string]bool{}
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is valid
	for _, link := range links {
		target, _ := os.Readlink(link) // "" if it has been closed since
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	list, _ := os.ReadFile("/proc/net/tcp") // without it the result is always false
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

// kernelName returns an IPv4 address in the kernel's notation: the bytes in the order of a little-endian machine.
func kernelName(a net.Addr) string {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.To4() == nil {
		return ""
	}
	ip := tcp.IP.To4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], tcp.Port)
}
