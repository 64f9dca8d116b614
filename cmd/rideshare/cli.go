package main

import "github.com/alecthomas/kong"

// cli has the sub-commands. Each is a struct with its settings as tagged fields: flag, environment variable, default and
// help are in one place.
type cli struct {
	ShowVersion kong.VersionFlag `name:"version" group:"Every command:" help:"Print the version."`
	admin       `group:"Every command:"`
	tlsSettings `group:"Every command:"`

	Up           upCommand           `cmd:"" help:"The whole system on this machine; with no flag in one process, no service needed."`
	Orchestrator orchestratorCommand `cmd:"" help:"The database's HTTP API, batching, control loop and scaling."`
	Worker       workerCommand       `cmd:"" help:"One worker, which the orchestrator makes master or slave."`
	Launcher     launcherCommand     `cmd:"" help:"Starts and ends workers for the orchestrators of one system; the only part that holds the engine."`
	Persdb       persdbCommand       `cmd:"" help:"The durable database and its commit log, over HTTP."`
	Queues       queuesCommand       `cmd:"" help:"Declares the shared queues and exchanges of a RabbitMQ cluster, once, when all nodes have joined."`
	Users        usersCommand        `cmd:"" help:"The users service."`
	Rides        ridesCommand        `cmd:"" help:"The rides service."`
	Gateway      gatewayCommand      `cmd:"" help:"The gateway: one port in front of users and rides."`
	User         userCommand         `cmd:"" help:"Make a line for a file of credentials: a user with a password, or a token."`
	Load         loadCommand         `cmd:"" help:"Load generator with progress and report, against any deployment; checks every answer."`
	Bench        benchCommand        `cmd:"" help:"How fast it is: this system beside bare SQLite behind the same HTTP server, in one run."`
	Check        checkCommand        `cmd:"" help:"Verify a running system: log dense, replicas equal to persdb at equal seq, nothing orphaned."`
	Backup       backupCommand       `cmd:"" help:"Write the database at one position as an SQLite file, while writes go on."`
	Restore      restoreCommand      `cmd:"" help:"Make a data folder from an archive, at any position or time, or from a backup."`
	Archive      archiveCommand      `cmd:"" help:"List or verify an archive, or name the cluster of a data folder."`
	Shell        shellCommand        `cmd:"" help:"An SQL shell: statements and dot commands, typed or piped."`
	Status       statusCommand       `cmd:"" help:"One screen about a running system: health, members, lag, wanted and actual slaves."`
	Healthcheck  healthcheckCommand  `cmd:"" help:"Exit 0 when the part at URL is ready."`
	Version      versionCommand      `cmd:"" help:"Print the versions of the product, its commit, Go and SQLite."`
	Completion   completionCommand   `cmd:"" help:"Print the script by which bash, zsh or fish completes the command line."`
}
