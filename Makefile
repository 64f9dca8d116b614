# What people and CI run. `make help` lists it.
GO       ?= go
RACE      = -race -shuffle=on
FUZZTIME ?= 30s
SIM_RUNS ?= 1000
FAULT_PARALLEL ?= 3
LINT      = $(GO) tool -modfile=tools/go.mod golangci-lint

.DEFAULT_GOAL := help
.PHONY: help run build test test-fault test-real test-short test-sim test-containers fuzz check fmt lint tidy vet bench bench-smoke load-jmeter clean setup up down logs ps images services services-stop vuln

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## the whole system in one process, data in ./data
	$(GO) run ./cmd/rideshare up

build: ## the binary, static, as bin/rideshare
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/rideshare ./cmd/rideshare

up: ## the whole system in containers; PROJECT=name for another one beside it
	@deploy/stack.sh up

down: ## remove the containers, workers and networks; VOLUMES=1: the data too
	@deploy/stack.sh down $(if $(VOLUMES),--volumes)

logs: ## follow the logs of the containers
	@deploy/stack.sh logs

ps: ## the containers of the stack
	@deploy/stack.sh ps

images: ## the images of the stack, built or found, without starting anything
	@deploy/stack.sh images

setup: ## a C compiler for the race detector, where it is missing
	@tools/setup.sh

services: ## RabbitMQ and ZooKeeper for the tests, on free loopback ports
	@tools/services.sh start

services-stop: ## end what services started
	@tools/services.sh stop

test: setup services ## every test but test-containers, with the race detector, the API's also on the real parts
	set -a; . .services/env; $(GO) test $(RACE) -timeout 20m $$($(GO) list ./... | grep -v -e /tests/fault -e /tests/containers)
	$(GO) test $(RACE) -tags failpoint ./internal/failpoint/...
	$(GO) test -tags failpoint -run Broken ./tests/sim
	$(GO) test -count=1 -run Allocations ./cmd/rideshare/assembly
	@$(MAKE) --no-print-directory test-sim
	@$(MAKE) --no-print-directory test-real
	@$(MAKE) --no-print-directory test-fault

test-sim: ## SIM_RUNS (1000) simulated runs of the whole system under random faults, without the race detector
	RIDESHARE_SIM_RUNS=$(SIM_RUNS) GOGC=400 $(GO) test -count=1 -timeout 10m -run RandomFaults ./tests/sim

test-real: setup services ## the API test set on RabbitMQ, ZooKeeper and processes
	set -a; . .services/env; \
	  RIDESHARE_E2E_FLAGS="--bus $$RABBITMQ_URL --coordinator $$ZOOKEEPER_URL/{id} --launcher process --prefix {id}-" \
	  $(GO) test $(RACE) -count=1 -timeout 20m ./tests/e2e

test-fault: setup services ## the faults on real services and processes, FAULT_PARALLEL (3) at a time, in some 5 minutes
	set -a; . .services/env; $(GO) test $(RACE) -count=1 -timeout 20m -parallel $(FAULT_PARALLEL) ./tests/fault

test-containers: setup ## the stack of docker-compose.yml, on a Docker engine, as root, in minutes
	$(GO) test -race -count=1 -v -timeout 40m ./tests/containers

test-short: setup ## the tests without the fault runs
	$(GO) test $(RACE) -short -timeout 10m $$($(GO) list ./... | grep -v -e /tests/fault -e /tests/containers)

fuzz: ## each fuzz target for FUZZTIME (30s)
	@GO="$(GO)" tools/fuzz.sh $(FUZZTIME)

check: vet lint tidy ## format, vet, lint, import rules, go.mod

vet:
	$(GO) vet ./...
	$(GO) vet -tags failpoint ./...

lint:
	$(LINT) run ./...
	$(LINT) run --build-tags failpoint ./internal/failpoint/... ./cmd/rideshare
	$(LINT) fmt --diff ./...

fmt: ## write the format that check wants
	$(LINT) fmt ./...

tidy:
	$(GO) mod tidy -diff

vuln: ## known vulnerabilities (needs the vulnerability database online)
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

bench: build ## the performance ladder beside the alternatives, on a quiet machine, in minutes
	bin/rideshare bench --json bin/bench.json --html bin/bench.html

bench-smoke: setup services ## the ladder for a moment: right answers, no times
	set -a; . .services/env; $(GO) test $(RACE) -count=1 -timeout 10m ./tests/bench

load-jmeter: ## the four scaling scenes by JMeter; GATEWAY_URL, ORCHESTRATOR_URL, PERIOD name a running system, else one is started
	tests/load/jmeter.sh

clean: ## what build and test leave behind, but not ./data
	rm -rf bin coverage*
