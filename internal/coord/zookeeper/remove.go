package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// anyVersion deletes a node whatever was written to it.
const anyVersion = -1

// Remove deletes the coordinator's node and all nodes below it. It is for systems that have been shut down for good. A
// URL without a node is an error: the rest of the server may belong to other systems.
func (k *Coordinator) Remove(ctx context.Context) error {
	if k.address.root == "" {
		return errors.New("coordinator: the URL names no node to remove")
	}
	session, err := k.connect()
	if err != nil {
		return err
	}
	if err = session.awaitConnection(ctx); err == nil {
		err = session.removeAll(ctx, k.address.root)
	}
	return errors.Join(err, session.Close())
}

// removeAll deletes a node with all nodes below it. A missing node is not an error.
func (s *Session) removeAll(ctx context.Context, path string) error {
	names, err := call(ctx, s, func(c *zk.Conn) ([]string, error) {
		children, _, err := c.Children(path)
		return children, err
	})
	for _, name := range names {
		if err = s.removeAll(ctx, path+"/"+name); err != nil {
			return err
		}
	}
	if err == nil {
		err = s.remove(ctx, path, anyVersion)
	}
	if isGone(err) {
		return nil
	}
	if err != nil {
		return border(fmt.Sprintf("remove %s", path), err)
	}
	return nil
}
