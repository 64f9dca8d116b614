package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

// callTimeout bounds a short call. A start takes 0.4 s, and a second when five are concurrent; a paused
// engine must not block a caller for ever.
const callTimeout = 20 * time.Second

// maxTailBytes bounds what is read of a dead worker's output.
const maxTailBytes = 64 << 10

// Client is the Engine of Docker. It has two HTTP clients: one for short calls, and one without a time limit for calls
// that wait for an event.
type Client struct {
	short *client.Client
	long  *client.Client
}

var _ Engine = (*Client)(nil)

// Dial returns a Client of the engine at host, such as unix:///var/run/docker.sock. It does
// not connect yet; an error means a bad address.
func Dial(host string) (*Client, error) {
	var clients [2]*client.Client
	for n := range clients {
		c, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
		if err != nil {
			return nil, fmt.Errorf("container engine at %s: %w", host, err)
		}
		clients[n] = c
	}
	return &Client{short: clients[0], long: clients[1]}, nil
}

// Close drops idle connections.
func (c *Client) Close() error {
	_ = c.short.Close() // both only close idle connections
	return c.long.Close()
}

// Create implements Engine.
func (c *Client) Create(ctx context.Context, p Plan) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	made, err := c.short.ContainerCreate(ctx, configOf(p), hostConfigOf(p), networkOf(p), nil, p.Name)
	if errdefs.IsNotFound(err) && strings.Contains(err.Error(), noImage) {
		return "", fmt.Errorf("%w: %w", errMissingImage, err)
	}
	if errdefs.IsNotFound(err) { // something else that the container needs
		return "", fmt.Errorf("%w: %w", errRefused, err)
	}
	return made.ID, translate(err)
}

// noImage occurs in the engine's answer if the image was not found.
const noImage = "No such image"

func configOf(p Plan) *container.Config {
	return &container.Config{
		Image: p.Image, Cmd: p.Command, Env: p.Env, Labels: p.Labels, User: p.User,
		// The image's own health check is for another part; the control loop knows better whether a worker is well.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
}

func hostConfigOf(p Plan) *container.HostConfig {
	initProcess := true // reaps children and forwards SIGTERM
	h := &container.HostConfig{
		NetworkMode:    container.NetworkMode(p.Network),
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled}, // the control loop replaces: two supervisors would fight
		AutoRemove:     false,                                                          // the container stays until its end is recorded
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges:true"},
		Init:           &initProcess,
		Tmpfs:          p.Tmpfs,
		LogConfig:      container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "3"}},
		Resources: container.Resources{
			Memory: p.MemoryBytes, MemorySwap: p.MemoryBytes, // the same: no swap
			NanoCPUs: p.NanoCPUs, PidsLimit: &p.PIDs,
		},
	}
	for target, source := range p.Binds {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: true})
	}
	return h
}

func networkOf(p Plan) *network.NetworkingConfig {
	if p.Alias == "" {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{p.Network: {Aliases: []string{p.Alias}}}}
}

// Start implements Engine.
func (c *Client) Start(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := c.short.ContainerStart(ctx, id, container.StartOptions{})
	if errdefs.IsInternal(err) { // the engine's error for a program or a mount that cannot work
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return translate(err)
}

// Signal implements Engine.
func (c *Client) Signal(ctx context.Context, id, signal string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return translate(c.short.ContainerKill(ctx, id, signal))
}

// Wait implements Engine.
func (c *Client) Wait(ctx context.Context, id string) error {
	ctx, cancel := context.WithCancel(ctx) // ends the client's goroutine too
	defer cancel()
	ended, failed := c.long.ContainerWait(ctx, id, container.WaitConditionNotRunning)
	select {
	case <-ended:
		return nil
	case err := <-failed:
		return translate(err)
	}
}

// Remove implements Engine.
func (c *Client) Remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return translate(c.short.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: true}))
}

// Inspect implements Engine.
func (c *Client) Inspect(ctx context.Context, idOrName string) (Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	in, err := c.short.ContainerInspect(ctx, idOrName)
	if err != nil {
		return Container{}, translate(err)
	}
	out := Container{
		ID: in.ID, Name: strings.TrimPrefix(in.Name, "/"), Labels: in.Config.Labels, Status: status(in.State.Status),
		PID: in.State.Pid, ExitCode: in.State.ExitCode,
		CreatedAt: parseTime(in.Created), StartedAt: parseTime(in.State.StartedAt),
	}
	return out, nil
}

// parseTime returns the zero time for an event that never happened, which the engine reports as the year 1.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// List implements Engine.
func (c *Client) List(ctx context.Context, label string) ([]Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	found, err := c.short.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return nil, translate(err)
	}
	list := make([]Container, 0, len(found))
	for i := range found {
		list = append(list, Container{
			ID: found[i].ID, Labels: found[i].Labels, Status: status(found[i].State), CreatedAt: time.Unix(found[i].Created, 0),
		})
	}
	return list, nil
}

// Tail implements Engine.
func (c *Client) Tail(ctx context.Context, id string, lines int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	logs, err := c.short.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(lines)})
	if err != nil {
		return "", translate(err)
	}
	defer func() { _ = logs.Close() }() // read only: nothing to lose.
	var text bytes.Buffer
	if _, err = stdcopy.StdCopy(&text, &text, io.LimitReader(logs, maxTailBytes)); err != nil && text.Len() == 0 {
		return "", fmt.Errorf("read output: %w", err)
	}
	return strings.ToValidUTF8(strings.TrimSpace(text.String()), "?"), nil
}

// changes are the events that change the list of workers.
var changes = []events.Action{
	events.ActionStart, events.ActionDie, events.ActionOOM, events.ActionPause, events.ActionUnPause, events.ActionDestroy,
}

// Watch implements Engine.
func (c *Client) Watch(ctx context.Context, label string, each func(Change)) error {
	ctx, cancel := context.WithCancel(ctx) // ends the client's goroutine too
	defer cancel()
	args := filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)), filters.Arg("label", label))
	messages, failed := c.long.Events(ctx, events.ListOptions{Filters: args})
	select {
	case err := <-failed: // Events returns only after the engine has answered or failed to
		return translate(err)
	default:
		each(Change{})
	}
	for {
		select {
		case m := <-messages:
			if slices.Contains(changes, m.Action) {
				each(changeOf(m))
			}
		case err := <-failed:
			return translate(err)
		}
	}
}

// changeOf converts a message of the engine.
func changeOf(m events.Message) Change {
	change := Change{ID: m.Actor.ID, Started: m.Action == events.ActionStart}
	if m.Action == events.ActionDie {
		code, err := strconv.Atoi(m.Actor.Attributes["exitCode"])
		change.Died, change.ExitCode = err == nil, code // without an exit code the death is found like any other change
	}
	return change
}

// translate turns the library's errors into those of this package.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errdefs.IsNotFound(err):
		return fmt.Errorf("%w: %w", errNotFound, err)
	case errdefs.IsConflict(err):
		return fmt.Errorf("%w: %w", errConflict, err)
	case errdefs.IsInvalidArgument(err), errdefs.IsPermissionDenied(err):
		return fmt.Errorf("%w: %w", errRefused, err)
	default:
		return err
	}
}
