package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rideshare/orchestrator/launch/docker"
	"rideshare/system"
)

// dockerSettings says how to run workers as containers.
type dockerSettings struct {
	DockerHost       string  `default:"unix:///var/run/docker.sock" placeholder:"URL" env:"DOCKER_HOST" help:"docker: address of the engine (${default})."`
	DockerStack      string  `default:"" placeholder:"NAME" env:"LAUNCHER_STACK" help:"docker: names the system in the labels and names of its containers. Default: the compose project, or else rideshare, or with up a name made from the path of --data."`
	DockerProject    string  `default:"" placeholder:"NAME" env:"LAUNCHER_PROJECT" help:"docker: compose project whose 'down --remove-orphans' removes the workers too. None: no project."`
	DockerImage      string  `default:"rideshare/rideshare:local" placeholder:"IMAGE" env:"LAUNCHER_IMAGE" help:"docker: image of the workers, made by 'make images' (${default})."`
	DockerNetwork    string  `default:"host" placeholder:"NAME" env:"LAUNCHER_NETWORK" help:"docker: network of the workers. On a network of the engine the workers are reached by their names, so the orchestrator must be on it too; host is the network of the engine's machine, the only network that up can use (${default})."`
	DockerUser       string  `default:"" placeholder:"UID:GID" env:"LAUNCHER_USER" help:"docker: user of the workers, in numbers, who must be able to read the file with the broker's URL. Default: that of this process, or 65532:65532 if that is root."`
	WorkerMemoryMiB  int64   `name:"worker-memory-mib" default:"1536" env:"WORKER_MEMORY_MIB" help:"docker: memory of a worker in MiB, its replica included (${default})."`
	WorkerReplicaMiB int64   `name:"worker-replica-mib" default:"256" env:"WORKER_REPLICA_MIB" help:"docker: room for a worker's replica in MiB, in memory: the database must fit (${default})."`
	WorkerAnswerMiB  int64   `name:"worker-answer-mib" default:"96" env:"WORKER_ANSWER_MIB" help:"docker: answers of a worker in MiB that may wait to be sent, all together; a read that finds no room is refused (${default})."`
	WorkerCPUs       float64 `name:"worker-cpus" default:"1" env:"WORKER_CPUS" help:"docker: processors of a worker (${default})."`
	WorkerTLS        string  `name:"worker-tls" default:"" placeholder:"DIR" env:"WORKER_TLS" help:"docker: directory on the engine's machine with the workers' cert.pem, key.pem and ca.pem, which they see as files of their own. Default: workers without TLS."`
	WorkerPIDs       int64   `name:"worker-pids" default:"256" env:"WORKER_PIDS" help:"docker: threads of a worker (${default})."`
}

// docker returns the settings, with the path of the file with the broker's URL.
func (d dockerSettings) docker(busFile string) *system.Docker {
	d.DockerUser = d.user()
	return &system.Docker{
		Host: d.DockerHost, Stack: cmp.Or(d.DockerStack, d.DockerProject, "rideshare"), Project: d.DockerProject, Image: d.DockerImage, Network: d.DockerNetwork, BusFile: busFile, TLS: d.WorkerTLS,
		Limits: docker.Limits{
			User: d.DockerUser, Memory: d.WorkerMemoryMiB << 20, Replica: d.WorkerReplicaMiB << 20, Answers: d.WorkerAnswerMiB << 20, CPUs: d.WorkerCPUs, PIDs: d.WorkerPIDs,
		},
	}
}

// checkWorkerTLS returns an error unless either both this process and the workers in containers have TLS, or neither has.
func (d dockerSettings) checkWorkerTLS(out *output) error {
	if out.tls.Serves() != (d.WorkerTLS != "") {
		return usagef("--tls-cert and --worker-tls go together: workers in containers have their own files")
	}
	return nil
}

// user returns the user that workers run as: by default never root.
func (d dockerSettings) user() string {
	switch {
	case d.DockerUser != "":
		return d.DockerUser
	case os.Getuid() == 0:
		return "65532:65532"
	default:
		return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	}
}

// writeBusFile writes the broker's URL to a file that only user can read; the containers run as this user.
func writeBusFile(dir, busURL, user string) (file string, err error) {
	uid, gid, err := ids(user)
	if err != nil {
		return "", err
	}
	if file, err = filepath.Abs(filepath.Join(dir, "bus")); err != nil {
		return "", fmt.Errorf("file for the broker's URL: %w", err)
	}
	if err = os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("file for the broker's URL: %w", err)
	}
	if err = os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by an earlier run, and not writable
		return "", fmt.Errorf("file for the broker's URL: %w", err)
	}
	if err = errors.Join(os.WriteFile(file, []byte(busURL+"\n"), 0o600), os.Chmod(file, 0o400)); err != nil {
		return "", fmt.Errorf("file for the broker's URL: %w", err)
	}
	if uid != os.Getuid() || gid != os.Getgid() {
		if err = os.Chown(file, uid, gid); err != nil {
			return "", usagef("--docker-user: workers of user %s could not read the broker's URL: only root may give them a file; use %d:%d: %v",
				user, os.Getuid(), os.Getgid(), err)
		}
	}
	return file, nil
}

func ids(user string) (uid, gid int, err error) {
	first, second, _ := strings.Cut(user, ":")
	uid, err = strconv.Atoi(first)
	if err == nil {
		gid, err = strconv.Atoi(second)
	}
	if err != nil {
		return 0, 0, usagef("--docker-user: %q is not uid:gid in numbers", user)
	}
	return uid, gid, nil
}
