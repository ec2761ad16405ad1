# The commands people type. `make demo` and `make test` are all a newcomer needs; both are safe to run again.
SHELL := /bin/bash
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)
VENV := build/venv
PYTHON := $(VENV)/bin/python
LAB := lab/lab
NODES ?= 4
export CCACHE_DIR ?= $(HOME)/.cache/computedomain-ccache

.PHONY: help setup build lab demo test test-unit test-python test-e2e check bench lint format image image-arm64 lab-down

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

lab: image ## start the lab cluster (NODES=4) and install the driver in it
	$(LAB) up --nodes $(NODES)
	$(LAB) install

demo: lab ## set up, build, start the lab, and watch two ComputeDomains share nodes
	$(PYTHON) -m demo

test: build test-unit test-python test-e2e ## everything that has to pass for a change to land
	@$(PYTHON) scripts/summary.py build/test-results

lint: build/.setup ## formatting, clang-tidy and shell checks
	scripts/lint

format: ## rewrite the C++ files the way lint wants them
	scripts/lint --fix

bench: lab ## measure latency, API requests and memory against two controls; results in bench/results
	$(LAB) exec $(PYTHON) -m bench

lab-down: ## stop the lab and remove all it made
	$(LAB) down
