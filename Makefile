# Everything a person or a machine does with this tree. "make help" lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

BIN := bin/shardonnay
VERSION ?= $(shell git describe --tags --match 'v*' 2>/dev/null | sed 's/^v//' | grep . || echo 0.0.0-dev)
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X github.com/shardonnay/shardonnay/internal/version.number=$(VERSION) -X github.com/shardonnay/shardonnay/internal/version.commit=$(COMMIT)
# The commit is stamped above; Go's own stamping fails where git does not trust the folder, as in many containers.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

# Pinned, and built from the module proxy, so that every machine lints with the same rules. See docs/decisions/0007.
GOLANGCI_VERSION := v2.15.0
GOLANGCI := .tools/golangci-lint-$(GOLANGCI_VERSION)

# Packages that start goroutines are tested with the race detector, the others without: it makes arithmetic ten times
# slower and finds nothing there.
CONCURRENT = $(shell grep -rlE '^[[:space:]]*go [a-z]|errgroup|"sync|\.Go\>' --include='*.go' internal cmd | xargs -n1 dirname | sort -u | sed 's|^|./|')
UNIT = $(shell go list -f '{{.Dir}}' ./internal/... ./cmd/... | sed 's|^$(CURDIR)|.|')
SEQUENTIAL = $(filter-out $(CONCURRENT),$(UNIT))

# The dashboards' generator is a module of its own: its library is nothing the program needs.
DASHBOARDS := deploy/grafana

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what building and testing need and this machine lacks
	@scripts/install-deps.sh build test

.PHONY: deps-build
deps-build:
	@scripts/install-deps.sh build

.PHONY: build
build: deps-build ## Build bin/shardonnay
	go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/shardonnay

.PHONY: demo
demo: build ## Watch a simulated cluster's heat even out (about a minute)
	$(BIN) demo

.PHONY: check
check: deps-build ## What CI checks before testing: format, lint, tidy, generated files
	@$(MAKE) check-lint check-tidy check-generated check-page

$(GOLANGCI):
	@echo "building golangci-lint $(GOLANGCI_VERSION), once: some minutes"
	@mkdir -p .tools/build
	GOBIN=$(CURDIR)/.tools/build GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv .tools/build/golangci-lint $@ && rmdir .tools/build

.PHONY: check-lint
check-lint: $(GOLANGCI)
	$(GOLANGCI) fmt --diff
	$(GOLANGCI) run
	cd $(DASHBOARDS) && $(CURDIR)/$(GOLANGCI) run

.PHONY: check-tidy
check-tidy:
	go mod tidy -diff
	go mod verify
	cd $(DASHBOARDS) && go mod tidy -diff && go mod verify

.PHONY: check-generated
check-generated:
	@before=$$(git status --porcelain; git diff); go generate ./...; go -C $(DASHBOARDS) generate ./...; after=$$(git status --porcelain; git diff); \
	if [ "$$before" != "$$after" ]; then git --no-pager diff --stat; echo "generated files were out of date; they are right now: commit them" >&2; exit 1; fi
	@echo "generated files are current"

# The page is built by tools of Node.js and committed; building the daemon needs none of them. See docs/decisions/0020.
.PHONY: page
page: page-tools ## Build the page from web/ into internal/page/files (needs npm)
	cd web && npm run --silent check && npm run --silent build

.PHONY: page-tools
page-tools:
	cd web && npm ci --ignore-scripts --no-audit --no-fund --silent

.PHONY: check-page
check-page:
	@if ! command -v npm >/dev/null; then \
		echo "check-page: THE COMMITTED PAGE IS NOT CHECKED: there is no npm here to build it with" >&2; exit 0; fi; \
	$(MAKE) page-tools; cd web; npm run --silent check; \
	built=$$(mktemp -d); trap 'rm -rf "$$built"' EXIT; node build.js "$$built"; \
	if ! diff -rq "$$built" ../internal/page/files; then \
		echo "internal/page/files is not what web/ builds into: run make page and commit it" >&2; exit 1; fi; \
	echo "the committed page is current"

.PHONY: fix
fix: $(GOLANGCI) ## Format, apply what the linters can mend, regenerate
	$(GOLANGCI) fmt
	$(GOLANGCI) run --fix
	go mod tidy
	go generate ./...
	go -C $(DASHBOARDS) generate ./...

.PHONY: test
test: deps ## Run every test, real clusters included
	@$(MAKE) test-prepare
	@$(MAKE) -j2 --output-sync=target test-unit test-real test-alerts
	@$(MAKE) test-heat

.PHONY: test-prepare
test-prepare: ## Resolve and compile what the real clusters are started from; later runs need no network
	go run ./test/realcluster/prepare

# Tests of these names start real clusters; they run beside each other nowhere.
REAL := ^TestRealClusters
HEAT := ^TestHeatEvensOut$$

.PHONY: test-unit
test-unit: deps-build ## Run the tests that need no real cluster, with the race detector where there are goroutines
	go vet ./...
	go test -race -timeout 20m -skip '$(REAL)' $(CONCURRENT)
	go test -timeout 20m -skip '$(REAL)' $(SEQUENTIAL) ./internal/zones # again: whole stories, without the detector
	cd $(DASHBOARDS) && go vet ./... && go test ./...
	@$(MAKE) test-page

.PHONY: test-page
test-page: ## Look at the page in a headless Chromium; screenshots go to artifacts/
	@mkdir -p artifacts
	go test -count=1 -timeout 10m -artifacts -outputdir $(CURDIR)/artifacts ./test/page

.PHONY: test-real
test-real: ## Run the tests against the five real products, those aside that measure load
	go test -p 1 -count=1 -timeout 25m -skip '$(HEAT)' $$(go list ./test/... | grep -vE '/(observability|page|zones)$$')
	go test -p 1 -count=1 -timeout 15m -run '$(REAL)' ./internal/collector ./internal/sim

.PHONY: test-alerts
test-alerts: ## Run the dashboards and alerts against a real Prometheus that scrapes the demo and planted faults
	go test -v -count=1 -timeout 15m ./test/observability

.PHONY: test-heat
test-heat: ## Watch the heat of the five real products even out, with the machine to itself
	go test -count=1 -timeout 20m -run '$(HEAT)' ./test/e2e

.PHONY: test-zones
test-zones: deps ## Kill, freeze, rotate and take out the zones of real clusters while searches and writes go on
	@$(MAKE) test-prepare
	go test -count=1 -timeout 20m -v ./test/zones

# Modules of their own, for what they build beside the tests. Vet would look through all of that as well.
ALONE := go mod tidy -diff && go test -vet=off -count=1 -timeout 20m -v ./...

.PHONY: test-kubernetes
test-kubernetes: deps ## Apply what is shipped for Kubernetes to a real API server; two daemons take over from each other
	cd test/kubernetes && $(ALONE)

.PHONY: image-check
image-check: ## Carry out the Dockerfile in a folder, run the image without privileges or a place to write, lint it
	@scripts/install-deps.sh image
	cd test/image && $(ALONE)

.PHONY: results
results: build ## Measure on the real clusters for longer and write the table of docs/results.md
	go test -timeout 120m -count=1 -v ./test/e2e -run TestResults -results

.PHONY: results-zones
results-zones: ## Repeat what happens to zones often on real clusters, and print the figures of docs/results.md (an hour and a quarter)
	go test -timeout 120m -count=1 -parallel 1 -v ./test/zones -run 'TestResults|TestA14' -results

.PHONY: bench
bench: build ## Climb the ladder of generated instances beside the yardsticks, write the table of docs/results.md (hours)
	python3 bench/ladder.py --write

.PHONY: bench-code
bench-code: ## Run the benchmarks of the code
	go test -run '^$$' -bench . -benchtime 3x ./internal/...

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin .tools artifacts web/node_modules
