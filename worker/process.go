package worker

import (
	"bytes"
	"os"
	"strconv"
	"sync"
)

// hostname returns the name of this machine or container, or "".
var hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname() // "" if it has none
	return name
})

// residentBytes returns the resident memory of this process as Linux reports it, or zero.
func residentBytes() int64 {
	statm, err := os.ReadFile("/proc/self/statm") // size, resident, ...; in pages
	fields := bytes.Fields(statm)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64) // zero if the system uses another format
	return pages * int64(os.Getpagesize())
}
