# The commands people type. `make demo` and `make test` are all a newcomer needs; both are safe to run again.
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
VENV := build/venv
PYTHON := $(VENV)/bin/python
LAB := lab/lab
NODES ?= 4

.PHONY: help setup build lab demo test test-unit test-parts test-e2e test-combinations test-faults-short test-faults sanitize tsan fuzz simulate check bench bench-conversion lint format image image-arm64 test-arm64 lab-down

help: ## what each target does
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: build/.setup ## install the Debian packages and the Python environment this project needs
build/.setup: packages/debian.txt packages/python.txt scripts/setup
	scripts/setup
	@touch $@

build: build/.setup ## compile everything (release, g++ 12) into build/release
	cmake --preset release >/dev/null
	cmake --build --preset release -j $(JOBS)

image: build ## the container image, as an OCI archive in build/image
	$(PYTHON) -m deploy.image --build build/release

build/.setup-arm64: build/.setup packages/debian-arm64.txt
	scripts/setup arm64
	@touch $@

PROGRAMS := compute-domain-controller compute-domain-kubelet-plugin compute-domain-daemon compute-domain-webhook

image-arm64: build/.setup-arm64 ## the same image for linux/arm64, cross-built
	cmake --preset release-arm64 >/dev/null
	cmake --build --preset release-arm64 -j $(JOBS) --target $(PROGRAMS)
	$(PYTHON) -m deploy.image --build build/release-arm64 --architecture arm64

test-arm64: image-arm64 ## unit tests and image of the linux/arm64 build, under qemu-user
	cmake --build --preset release-arm64 -j $(JOBS) && ctest --preset release-arm64 -j $(JOBS)
	CD_ARCHITECTURE=arm64 $(PYTHON) -m pytest -q -p no:cacheprovider tests/deploy/test_image.py

lab: image ## start the lab cluster (NODES=4) and install the driver in it
	$(LAB) up --nodes $(NODES)
	$(LAB) install

demo: lab ## set up, build, start the lab, and watch two ComputeDomains share nodes
	$(LAB) exec $(CURDIR)/$(PYTHON) -m demo

RESULTS := build/test-results
# -rs: why a test was skipped is said.
PYTEST := $(PYTHON) -m pytest -q -rs -p no:cacheprovider

test: ## everything that has to pass for a change to land
	@rm -rf $(RESULTS) && mkdir -p $(RESULTS)
	@status=0; $(MAKE) --no-print-directory -k test-unit test-parts test-e2e test-faults-short || status=1; \
	  $(PYTHON) scripts/summary.py $(RESULTS) || status=1; exit $$status

test-unit: build ## unit tests, and integration tests against a real kube-apiserver
	CD_KUBE_BIN=$$($(LAB) build --print-path) ctest --preset release -j $(JOBS) --output-junit $(CURDIR)/$(RESULTS)/unit.xml

test-parts: image ## chart, emulator, daemon and the lab itself
	$(PYTEST) --junitxml=$(RESULTS)/parts.xml tests/bench tests/deploy tests/docs tests/emulator tests/daemon tests/plugin tests/lab

test-e2e: lab ## the whole on the lab cluster
	$(LAB) exec $(CURDIR)/$(PYTHON) -m pytest -q -rs -p no:cacheprovider --junitxml=$(RESULTS)/e2e.xml tests/e2e

# A lab of its own, gone again when all is well: nodes that are taken out of a lab keep their channels for 15 minutes.
test-combinations: export COMPUTEDOMAIN_LAB_INSTANCE = combinations
test-combinations: image ## a ComputeDomain of every combination of wishes, side by side on 8 nodes; prints what was expected and observed
	@mkdir -p $(RESULTS)
	$(LAB) up --topology tests/combinations/topology.yaml
	$(LAB) install
	$(LAB) exec $(CURDIR)/$(PYTHON) -m pytest -q -rs -p no:cacheprovider --junitxml=$(RESULTS)/combinations.xml tests/combinations
	$(LAB) down

# -s: each fault is told as it strikes.
FAULT_SERIES = $(LAB) exec $(CURDIR)/$(PYTHON) -m pytest -q -s -p no:cacheprovider --junitxml=$(RESULTS)/faults.xml tests/faults

test-faults-short: lab ## a fixed short series of faults under load, on the lab cluster
	$(FAULT_SERIES)

FAULTS ?= 200
test-faults: lab ## FAULTS=200 random faults in a row under load; prints its SEED, with which it can be repeated
	FAULTS=$(FAULTS) SEED=$(SEED) $(FAULT_SERIES)

sanitize: build/.setup ## unit tests that link no gRPC, under AddressSanitizer and UBSan
	cmake --preset asan >/dev/null && cmake --build --preset asan -j $(JOBS) && ctest --preset asan -j $(JOBS)

tsan: build/.setup ## the same under ThreadSanitizer
	cmake --preset tsan >/dev/null && cmake --build --preset tsan -j $(JOBS) && ctest --preset tsan -j $(JOBS)

SECONDS ?= 60
PARSERS ?=
fuzz: build/.setup ## fuzz every parser of foreign bytes for SECONDS=60 each, or those named in PARSERS
	cmake --preset fuzz >/dev/null && cmake --build --preset fuzz -j $(JOBS)
	tests/fuzz/run build/fuzz/tests/fuzz/fuzz $(SECONDS) $(PARSERS)

SEEDS ?= 1000
STEPS ?= 2000
simulate: build/.setup ## run SEEDS=1000 simulated clusters of STEPS=2000 steps with faults each; a failing seed prints its trace
	cmake --preset release >/dev/null && cmake --build --preset release -j $(JOBS) --target simulate
	build/release/tests/simulation/simulate --seeds $(SEEDS) --steps $(STEPS)

check: lint test lab-down test-combinations sanitize tsan test-arm64 ## `test` plus the combinations of wishes, the second compiler, clang-tidy, both sanitizer builds and the arm64 build
	cmake --preset clang >/dev/null && cmake --build --preset clang -j $(JOBS) && ctest --preset clang -j $(JOBS)
	run-clang-tidy-19 -quiet -p build/clang "$(CURDIR)/src/.*(?<!_test)\.cc$$"

lint: build/.setup ## C++ formatting, and that nothing but one file reads the clock
	scripts/lint

format: ## rewrite the C++ files the way lint wants them
	scripts/lint --fix

bench: NODES = 6
bench: lab ## measure latency, API requests and memory against two controls, on 6 nodes; results in bench/results
	$(PYTHON) -m bench.image
	$(LAB) images import build/image/computedomain-bench.tar
	$(LAB) exec $(CURDIR)/$(PYTHON) -m bench $(BENCH)

bench-conversion: build/.setup ## what one request of the API server to convert 5,000 ComputeDomains costs, beside a control
	cmake --preset release >/dev/null && cmake --build --preset release -j $(JOBS) --target bench-conversion
	build/release/bench/bench-conversion

lab-down: ## stop the lab and remove all it made
	$(LAB) down
