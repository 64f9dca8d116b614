# What people and CI run. `make help` lists it.
GO       ?= go
# SQLite's translated C is left out: with the race detector it takes several times as long, and each connection has one goroutine at a time.
RACE      = -race -gcflags=modernc.org/sqlite/lib=-race=false -shuffle=on
# For tests that CI runs after check, which vets: go test would vet each package again, and compile its dependencies for that.
VETTED    = $(GO) test -vet=off
# A process with the race detector usually sleeps for a second before it exits. The parts of a system exit one after the other, so each
# stop would take three seconds longer.
RACED     = GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 $(VETTED) $(RACE)
VERSION   = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZTIME ?= 30s
SIM_RUNS ?= 300
SQL_RUNS ?= 200
SIM_LIMIT ?= 30m
FAULT_PARALLEL ?= 2
# These tests take long, or measure the delivered binary, which has no race detector. TestLoad runs in containers, the others on one process only.
LOAD      = TestLoad_SlavesComeAndGo_NothingFails
DELIVERED = TestPersdb_LargestWrites_FitItsMemory|TestUp_OneProcess_ReadyInAFractionOfASecond|TestBodies_HugeEndlessAndSlow_RefusedWhileOthersAreAnswered
# These tests run on one process only: what they test does not depend on the bus, the coordinator or the launcher, or make test-fault or
# make test-containers tests it on real parts.
APART     = TestAdmission_|TestAuth_|TestBackup_(Blocks|Client|Command|Random)|TestCheck_(Missing|NobodyThere|With)|TestClients_|TestCorpus_|TestCounters_|TestDocument_|TestFaults_(SecondSignal|WorkersCrashed)|TestHealthcheck_|TestPersdb_|TestRestore_FromABucket|TestRides_List_HasOnly|TestRoles_|TestScenes_|TestShell_|TestTLS_(Certificate|PersdbVerifies|WrongUsage)|TestTerminal_|TestTraces_(LogLines|NoCollector|Sampled)|TestUp_(BusyPort|Demo|ExitCodes|Help|Output|Same)|TestUsers_(HostileName|NameOf)
# These tests take long on one process too, and test-real runs them on the real parts.
REAL_ONLY = TestBackup_DuringWrites|TestBodies_SQLForm|TestCrash_(Faster|WhileCalled)|TestCrowd_Writes|TestFaults_(Booking|SameKey|SystemKilled)|TestLauncher_WorkersOutlive|TestLoad_Fails|TestRides_ThousandJoins|TestScaling_(ManyReads|CrashDuring)|TestTLS_UpWithRoles
# The scenes of the examples for which real parts matter: those that kill some of them, and one with asynchronous writes. All scenes run on one process.
REAL_SCENES = ^TestScenes_Pass$$/^ski-(kill|queryable)$$|^TestScene_Kill$$
# The packages whose tests take or wait longest. They are started first, so that none of them runs alone at the end.
LONGEST = ./tests/e2e ./internal/mq/amqp ./persdb/pglog ./internal/coord/zookeeper ./cmd/rideshare ./tests/bench ./deploy/postgres ./orchestrator/launch/docker ./persdb/commitlog ./internal/sqlite ./tests/console ./examples/skilift ./persdb/restore
# This test takes minutes with the race detector. test-sim runs it without.
UNRACED = TestStore_PowerLoss_AtEachStepOfOpen
LINT      = $(GO) tool -modfile=tools/go.mod golangci-lint

.DEFAULT_GOAL := help
.PHONY: help run build test test-fault test-real test-short unit test-sim test-containers test-cluster up-cluster down-cluster fuzz check fmt lint tidy mutants bench bench-smoke examples-load load-jmeter nightly clean setup up down restore logs ps images services services-stop vuln

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## the whole system in one process, data in ./data
	$(GO) run ./cmd/rideshare up

build: ## the binary, static, as bin/rideshare
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w -X main.version=$(VERSION)' -o bin/rideshare ./cmd/rideshare

up: ## the whole system in containers; PROJECT=name for another one beside it, OBSERVE=1 for Prometheus and Grafana too, POSTGRES=1 for the log in PostgreSQL
	@deploy/stack.sh up

down: ## remove the containers, workers and networks; VOLUMES=1: the data too
	@$(if $(filter-out 0 1,$(VOLUMES))$(word 2,$(VOLUMES)),$(error VOLUMES is $(VOLUMES); allowed: 0, 1))deploy/stack.sh down$(if $(filter 1,$(VOLUMES)), --volumes)

restore: ## put the data folder FROM in the place of the stack's data, after make down: docs/BACKUP.md
	@deploy/stack.sh restore '$(FROM)'

up-cluster: ## three hosts of a cluster on this machine, in containers, ready in some minutes: docs/CLUSTER.md
	@deploy/cluster/local.sh up

down-cluster: ## remove them, the data too
	@deploy/cluster/local.sh down

logs: ## follow the logs of the containers
	@deploy/stack.sh logs

ps: ## the containers of the stack
	@deploy/stack.sh ps

images: ## the images of the stack, built or found, without starting anything
	@deploy/stack.sh images

setup: ## a C compiler for the race detector, git for the mutants, a browser for the console and Prometheus for the alert rules, where they are missing
	@tools/setup.sh

services: ## RabbitMQ, ZooKeeper and PostgreSQL for the tests, on free loopback ports
	@tools/services.sh start

services-stop: ## end what services started
	@tools/services.sh stop

unit: ## the packages by themselves, without the race detector and without services, in a minute or two
	$(GO) test -timeout 5m $$($(GO) list ./... | grep -v -e /tests/ -e /mq/amqp -e /coord/zookeeper -e /launch/docker -e /persdb/pglog -e /deploy/postgres)

test: setup services ## all tests except test-containers and test-cluster, with the race detector; those of the API also on the real parts
	set -a; . .services/env; RIDESHARE_ANYSQL_RUNS=50 RIDESHARE_POWERLOSS_RUNS=5 RIDESHARE_SIM_RUNS=10 $(RACED) -p 3 -skip '^($(LOAD)|$(UNRACED))$$|^($(REAL_ONLY))' -timeout 20m $(LONGEST) $$($(GO) list ./... | grep -v -e /tests/fault -e /tests/containers -e /tests/cluster)
	$(RACED) -tags failpoint ./internal/failpoint/...
	$(VETTED) -count=1 -run Allocations ./system
	@$(MAKE) --no-print-directory -j2 test-sim test-real # test-sim computes while test-real waits
	@$(MAKE) --no-print-directory test-fault # alone: its findings depend on time

test-sim: ## SQL_RUNS (200) scripts of generated SQL, 300 losses of power and SIM_RUNS (300) simulated runs of the system under faults, without the race detector, and the broken builds
	RIDESHARE_ANYSQL_RUNS=$(SQL_RUNS) nice -n 19 $(VETTED) -count=1 -timeout $(SIM_LIMIT) -run 'AnySQL|PowerLoss' ./persdb/commitlog
	RIDESHARE_SIM_RUNS=$(SIM_RUNS) GOGC=400 nice -n 19 $(VETTED) -count=1 -timeout $(SIM_LIMIT) -run RandomFaults ./tests/sim
	nice -n 19 $(VETTED) -tags failpoint -timeout 30m -run Broken ./tests/sim

test-real: setup services ## the API test set and some scenes of the examples on RabbitMQ, ZooKeeper and processes that have the race detector too, but for what is the same on all of them
	set -a; . .services/env; \
	  RIDESHARE_RACED=1; RIDESHARE_E2E_FLAGS="--bus $$RABBITMQ_URL --coordinator $$ZOOKEEPER_URL/{id} --launcher process --prefix {id}-"; \
	  $(RACED) -skip '^($(LOAD)|$(DELIVERED))$$|^($(APART))' -count=1 -timeout 30m ./tests/e2e && \
	  $(RACED) -run '$(REAL_SCENES)' -count=1 -p 1 -timeout 20m ./examples/...

test-fault: setup services ## the faults on real services and processes that have the race detector too, FAULT_PARALLEL (2) at a time, in some 11 minutes
	set -a; . .services/env; RIDESHARE_RACED=1 $(RACED) -count=1 -v -timeout 45m -parallel $(FAULT_PARALLEL) ./tests/fault

test-containers: setup services ## the stack of docker-compose.yml, on a Docker engine, as root, in minutes
	set -a; . .services/env; $(RACED) -count=1 -v -timeout 40m ./tests/containers

test-cluster: setup services ## three hosts, each killed, paused and cut off under load, and each leader killed; on a Docker engine, as root, in some 6 minutes; CLUSTER_ROUNDS=20 for figures
	$(RACED) -count=1 -v -timeout $$((20 * $${CLUSTER_ROUNDS:-1} + 10))m ./tests/cluster

test-short: setup ## the tests without the fault runs
	CGO_ENABLED=1 $(GO) test $(RACE) -short -timeout 10m $$($(GO) list ./... | grep -v -e /tests/fault -e /tests/containers -e /tests/cluster)

fuzz: ## each fuzz target for FUZZTIME (30s)
	@GO="$(GO)" tools/fuzz.sh $(FUZZTIME)

nightly: ## in some hours: longer runs of all tests that are random, and all mutants
	$(MAKE) test-sim SIM_RUNS=5000 SQL_RUNS=10000 SIM_LIMIT=4h
	RIDESHARE_ANYSQL_FOR=10m RIDESHARE_CONSUMER_RESUMES=1000 $(MAKE) test-fault
	$(MAKE) fuzz FUZZTIME=10m
	$(MAKE) mutants

mutants: services ## prove the tests: break the code in each place of tests/mutants and demand a red test; RUN=pattern for some
	set -a; . .services/env; $(GO) run ./tests/mutants -run '$(RUN)'

check: lint tidy ## format, vet, lint, import rules, go.mod

lint: # it vets, too; only this package has a file without the tag
	$(LINT) run --allow-parallel-runners --build-tags failpoint ./...
	$(LINT) run --allow-parallel-runners ./internal/failpoint
	$(LINT) fmt --diff ./...
	cd tests/clients && $(GO) tool -modfile=../../tools/go.mod golangci-lint run --allow-parallel-runners ./...

fmt: ## write the format that check wants
	$(LINT) fmt ./...

tidy: # tests/clients is a module of its own: the product depends on none of the clients that it pins
	$(GO) mod tidy -diff
	$(GO) mod tidy -C tests/clients -diff

vuln: ## known vulnerabilities (needs the vulnerability database online)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

bench: build services ## the performance ladder beside the alternatives, on a quiet machine, in minutes; RQLITE=FILE beside that rqlited too
	bin/rideshare bench --json bin/bench.json --html bin/bench.html $(if $(RQLITE),--rqlite $(RQLITE))

bench-smoke: setup services ## the ladder and a fail-over for a moment: right answers, no times
	set -a; . .services/env; CGO_ENABLED=1 $(GO) test $(RACE) -count=1 -timeout 10m ./tests/bench

examples-load: ## the load scenes of both examples in full, on RabbitMQ, ZooKeeper and processes, in about an hour; NAMES="ski-200k storm" for some
	tests/load/examples.sh $(NAMES)

load-jmeter: ## the four scaling scenes by JMeter; GATEWAY_URL, ORCHESTRATOR_URL, PERIOD name a running system, else one is started
	tests/load/jmeter.sh

clean: ## what build and test leave behind, but not ./data
	rm -rf bin coverage*
