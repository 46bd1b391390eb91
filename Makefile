# Everything a newcomer needs: Python 3.11+ and make. Each target installs what it uses into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install dev demo test test-cluster cluster cluster-assets lint format bench lock clean

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("Tollgate needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12 " if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: $(BIN)/python requirements.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

install: $(VENV)/.runtime ## the tollgate command in .venv/bin

dev: $(VENV)/.dev ## the same with what tests and lint need

demo: $(VENV)/.runtime ## send the pods of examples/ through a real TLS webhook and print what happens
	$(BIN)/python -m examples.demo

test: $(VENV)/.dev ## all tests that need no cluster
	$(BIN)/python -m pytest -n auto

test-cluster: $(VENV)/.dev ## tests against a real API server, Kueue and an autoscaler, built when needed (minutes, once)
	$(BIN)/python -m pytest tests/cluster -n 0

cluster: $(VENV)/.dev ## a cluster on this machine to try things in, until Ctrl-C (ARGS="--port 6443 --policy FILE")
	@exec $(BIN)/python -m tests.cluster.harness $(ARGS)

cluster-assets: $(VENV)/.dev ## build all that the two above may need, and say where it is
	$(BIN)/python -m tests.cluster.assets

lint: $(VENV)/.dev ## ruff, mypy --strict, import-linter
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## ruff, writing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## ratios against a bare server in the same run
	$(BIN)/python -m benchmarks.in_process
	$(BIN)/python -m benchmarks.tls_loop

lock: $(VENV)/.dev ## renew the lock files from pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --output-file requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --output-file requirements-build.lock --group pyproject.toml:build
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-header --group dev --constraint requirements.lock --output-file requirements-dev.lock pyproject.toml

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
