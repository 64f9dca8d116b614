package docker

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net"
	"slices"
	"strconv"
	"strings"

	"rideshare/internal/dbaas"
)

// Our labels. Our containers can be recognised only by these labels.
const (
	labelStack   = "rideshare.stack"
	labelStart   = "rideshare.start"   // the start id
	labelControl = "rideshare.control" // base URL of the control API
	// labelWorker is the worker's id if it is not taken from the container's id: on the host's network.
	labelWorker = "rideshare.worker"
	// labelGeneration distinguishes workers with the current settings from older ones, for upgrades.
	labelGeneration = "rideshare.generation"
)

// hostNetwork is the network of the engine's machine. A container there has no host name of its own.
const hostNetwork = "host"

const (
	// controlPort is the port of the control API in a container with its own network.
	controlPort = 9540
	// alias is a name that all workers of a network share. Prometheus looks it up to find them.
	alias       = "worker"
	busPath     = "/run/secrets/bus"
	tlsPath     = "/run/tls"
	replicaPath = "/replica"
	// shortID is the length of the prefix of a container's id that is its host name, and so the worker's id.
	shortID = 12
)

func (l *Launcher) stack() string { return labelStack + "=" + l.config.Stack }

// identity returns the worker's id: the beginning of the container's id, which is never reused.
func identity(c Container) dbaas.WorkerID {
	if id := c.Labels[labelWorker]; id != "" {
		return dbaas.WorkerID(id)
	}
	return dbaas.WorkerID(c.ID[:min(len(c.ID), shortID)])
}

// address says how the control API of a worker is reached.
type address struct {
	listen, url string
	alias       string         // empty on the host's network
	worker      dbaas.WorkerID // empty if it is taken from the container's id
}

// scheme begins the URLs of the workers.
func (l *Launcher) scheme() string {
	if l.config.TLS != "" {
		return "https://"
	}
	return "http://"
}

// addressOf returns the address of a worker that is about to be created.
func (l *Launcher) addressOf(name string) (address, error) {
	if l.config.Network != hostNetwork {
		port := strconv.Itoa(controlPort)
		return address{listen: ":" + port, alias: alias, url: l.scheme() + net.JoinHostPort(name, port)}, nil
	}
	// Another process may take the port before the worker binds it. Then the worker dies, and the next one gets another
	// port.
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // resolves nothing: it does not wait
	if err != nil {
		return address{}, fmt.Errorf("find a free port: %w", err)
	}
	listen := free.Addr().String()
	if err := free.Close(); err != nil {
		return address{}, fmt.Errorf("find a free port: %w", err)
	}
	return address{listen: listen, url: l.scheme() + listen, worker: dbaas.WorkerID("w-" + strings.ToLower(rand.Text()[:10]))}, nil
}

// nameOf returns the container's name for a start: the same name for the same start, a different name for any other.
func (l *Launcher) nameOf(startID string) string {
	sum := sha256.Sum256([]byte(l.config.Stack + "\x00" + startID))
	return fit(l.config.Stack) + "-worker-" + fit(startID) + "-" + hex.EncodeToString(sum[:4])
}

// maxNamePart keeps names fit for DNS: 63 bytes in all.
const maxNamePart = 20

// fit makes text fit to be part of a host name.
func fit(text string) string {
	fitting := strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	fitting = strings.Trim(fitting[:min(len(fitting), maxNamePart)], "-")
	if fitting == "" {
		return "x"
	}
	return fitting
}

// plan returns the container of a start. It is made from our own settings; only the start id comes from the caller.
func (l *Launcher) plan(startID string) (Plan, error) {
	name := l.nameOf(startID)
	at, err := l.addressOf(name)
	if err != nil {
		return Plan{}, err
	}
	c := l.config
	uid, gid, _ := strings.Cut(c.Limits.User, ":")
	tmpfs := func(bytes int64) string {
		return fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,mode=0700,uid=%s,gid=%s", bytes, uid, gid)
	}
	p := Plan{
		Name: name, Image: c.Image, Command: []string{"worker"}, User: c.Limits.User, Network: c.Network, Alias: at.alias,
		Env: []string{
			"WORKER_DIR=" + replicaPath, "RIDESHARE_BUS_FILE=" + busPath, "RIDESHARE_COORDINATOR=" + c.Coordinator,
			"RIDESHARE_SESSION=" + c.Session.String(), "RIDESHARE_PREFIX=" + c.Prefix, "PERSDB_URL=" + c.Persdb, "LOG_LEVEL=" + c.LogLevel,
			// The garbage collector works harder before the kernel would kill the worker.
			"GOMEMLIMIT=" + strconv.FormatInt((c.Limits.Memory-c.Limits.Replica)*9/10, 10),
			"WORKER_ANSWER_MIB=" + strconv.FormatInt(c.Limits.Answers>>20, 10),
		},
		Binds:       map[string]string{busPath: c.BusFile},
		Tmpfs:       map[string]string{replicaPath: tmpfs(c.Limits.Replica), "/tmp": tmpfs(tempBytes)},
		MemoryBytes: c.Limits.Memory, NanoCPUs: int64(c.Limits.CPUs * 1e9), PIDs: c.Limits.PIDs,
	}
	if c.TLS != "" {
		p.Binds[tlsPath] = c.TLS
		p.Env = append(p.Env, "TLS_CERT="+tlsPath+"/cert.pem", "TLS_KEY="+tlsPath+"/key.pem", "TLS_CA="+tlsPath+"/ca.pem")
	}
	p.Env = append(p.Env, c.Env...)
	generation := p.generation()
	p.Env = append(p.Env, "WORKER_LISTEN="+at.listen, "WORKER_CONTROL_URL="+at.url)
	p.Labels = map[string]string{labelStack: c.Stack, labelStart: startID, labelControl: at.url, labelGeneration: generation}
	if at.worker != "" {
		p.Labels[labelWorker] = string(at.worker)
		p.Env = append(p.Env, "WORKER_ID="+string(at.worker))
	}
	if c.Project != "" {
		p.compose(c.Project, startID)
	}
	return p, nil
}

// tempBytes is the space for SQLite's temporary files: as much as a statement may use by default. Unused space takes no
// memory.
const tempBytes = 128 << 20

// compose adds the labels that make `docker-compose down --remove-orphans` treat a container as one of the project's;
// all of them are needed.
func (p *Plan) compose(project, startID string) {
	p.Labels["com.docker.compose.project"] = project
	p.Labels["com.docker.compose.service"] = "worker"
	p.Labels["com.docker.compose.oneoff"] = "False"
	p.Labels["com.docker.compose.container-number"] = strconv.Itoa(1 + int(crc32.ChecksumIEEE([]byte(startID))%1e6))
}

// generation identifies the settings that p was made from.
func (p *Plan) generation() string {
	env := slices.Sorted(slices.Values(p.Env))
	text := fmt.Sprintf("%s %s %s %q %v %v %d %d %d", p.Image, p.User, p.Network, env, p.Binds, p.Tmpfs, p.MemoryBytes, p.NanoCPUs, p.PIDs)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
