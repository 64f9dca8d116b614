package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"rideshare/system"
)

// removeStaleReadyFile removes the file if a process that was killed left it. The file of a running process is locked. The pid in
// it proves nothing: pids are used again, and each container has its own.
func removeStaleReadyFile(file string) error {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // there is no such file, or writing it will report the problem
	}
	if old, err := os.Open(file); err == nil { //nolint:gosec // the file is the operator's choice
		err = syscall.Flock(int(old.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
		_ = old.Close() // it was only read
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the ready file of an earlier run: %w", err)
	}
	return nil
}

// writeReadyFile writes the file, if a file is given, and returns a function that removes it.
func writeReadyFile(file string, urls system.URLs) (remove func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	temp := file + ".tmp"
	own, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600) //nolint:gosec // the file is the operator's choice
	if err != nil {
		return nil, fmt.Errorf("write ready file: %w", err)
	}
	_ = syscall.Flock(int(own.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // some file systems have no locks
	_, err = fmt.Fprintf(own, `{"gateway":%q,"users":%q,"rides":%q,"orchestrator":%q,"pid":%d}`+"\n",
		urls.Gateway, urls.Users, urls.Rides, urls.Orchestrator, os.Getpid())
	if err == nil {
		err = os.Rename(temp, file)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write ready file: %w", err), own.Close())
	}
	return func() error {
		defer func() { _ = own.Close() }() // everything is written
		if err := removeOwn(file, own); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove ready file: %w", err)
		}
		return nil
	}, nil
}

// removeOwn removes the file, unless another process has replaced own by a file of its own.
func removeOwn(file string, own *os.File) error {
	written, err := own.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(file); err != nil || !os.SameFile(there, written) {
		return err
	}
	return os.Remove(file)
}
