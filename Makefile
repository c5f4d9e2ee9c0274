# Every target that needs the environment makes it first; a second run installs nothing (see the stamp).
#
#   PYTHON=python3.12 make setup      to choose the interpreter
#   make test PYTEST_ARGS='-k wire'   to choose tests
#   make sweep TIMES=20               for longer sweeps
#   make fuzz FUZZ_SECONDS=600        for longer fuzzing
#   make chaos MINUTES=60             for longer chaos

PYTHON ?= python3
WORKERS ?= 3
TIMES ?= 4
FUZZ_SECONDS ?= 60
FUZZ_ARGS ?=
MINUTES ?= 5
CHAOS_ARGS ?=
PYTEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.set-up
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
# --no-build-isolation: PySpark is a source distribution, and an isolated build would fetch an unpinned setuptools.
PINNED := $(PIP_INSTALL) --require-hashes --no-build-isolation --no-deps
UV_COMPILE := uv pip compile --quiet --no-config --generate-hashes --universal --python-version 3.11 \
	--custom-compile-command 'make pins'

# Not the caller's packages: they are neither pinned nor ours.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test lint types unit-test docs-test cluster-test sweep chaos bench-sim bench-groups bench-verify bench-metrics bench-sweep fuzz bench-live bench-nodes pins clean

help:  ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP)  ## make .venv from the hash-pinned requirements, with plainchant in it

$(STAMP): requirements/build.txt requirements/dev.txt pyproject.toml papers/pyproject.toml workbench/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit(1)' 2>/dev/null || { \
		echo "plainchant needs Python 3.11 or newer, and '$(PYTHON)' is" \
			"'$$($(PYTHON) --version 2>&1 || true)': install one, or say PYTHON=/path/to/python3.11 make ..." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "'$(PYTHON)' has no venv module: install it (Debian: the package python3-venv)," \
			"or say PYTHON=/path/to/another make ..." >&2; exit 1; }
	@echo 'set-up: making $(VENV) (about a minute; PySpark alone is 460 MB)'
	$(PYTHON) -m venv --clear $(VENV)
	$(PINNED) -r requirements/build.txt
	$(PINNED) -r requirements/dev.txt
	$(PIP_INSTALL) --no-build-isolation --no-deps --editable . --editable ./papers --editable ./workbench
	$(BIN)/python -m pip check --quiet
	$(BIN)/python -m plainchant.lab.session.warmup
	@touch $@

demo: $(STAMP)  ## a five-member group with loss and a crash, forty more runs on Spark, and reports
	$(BIN)/plainchant demo

test: $(STAMP)  ## lint, types and all tests: what CI runs
	@$(MAKE) --no-print-directory lint
	@# Types are checked by one processor while the tests begin; what is wrong with them is said at the end.
	@$(MAKE) --no-print-directory types > $(VENV)/types.log 2>&1 & types=$$!; \
		$(MAKE) --no-print-directory unit-test; tested=$$?; \
		wait $$types || { cat $(VENV)/types.log; exit 1; }; exit $$tested

lint: $(STAMP)  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

types: $(STAMP)  ## mypy --strict
	$(BIN)/mypy --strict

unit-test: $(STAMP)  ## the tests without lint and types
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m 'not long and not cluster' $(PYTEST_ARGS)

docs-test: $(STAMP)  ## run every example in the README and the docs
	$(BIN)/pytest tests/test_docs.py $(PYTEST_ARGS)

cluster-test: $(STAMP)  ## commands on a standalone cluster of Spark's and a Connect server on loopback, with machines lost
	$(BIN)/pytest -m cluster $(PYTEST_ARGS)

sweep: $(STAMP)  ## the whole fault sweeps and random traces, four times (TIMES=20: twenty times)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m 'sweep or long' --times $(TIMES) $(PYTEST_ARGS)

chaos: $(STAMP)  ## real members of every protocol in trouble (MINUTES=60: for an hour; CHAOS_ARGS='--seed 7')
	$(BIN)/plainchant chaos --minutes $(MINUTES) $(CHAOS_ARGS)

fuzz: $(STAMP)  ## the decoder, every receive path and the readers under atheris, FUZZ_SECONDS=60 each
	$(PINNED) -r requirements/fuzz.txt
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --findings fuzz-findings $(FUZZ_ARGS)

bench-sim: $(STAMP)  ## simulator speed beside SimPy
	$(BIN)/plainchant bench sim

bench-groups: $(STAMP)  ## many overlapping groups in the simulator
	$(BIN)/plainchant bench groups

bench-verify: $(STAMP)  ## verification beside DuckDB (some minutes, 2 GB of disk)
	$(BIN)/plainchant bench verify

bench-metrics: $(STAMP)  ## metrics of large traces beside DuckDB
	$(BIN)/plainchant bench metrics

bench-sweep: $(STAMP)  ## sweeps beside a process pool
	$(BIN)/plainchant bench sweep

bench-live: $(STAMP)  ## live groups beside raw UDP and other systems (about five minutes)
	$(BIN)/plainchant bench live

bench-nodes: $(STAMP)  ## two nodes of four processes beside a flat group (about a minute)
	$(BIN)/plainchant bench nodes

pins: requirements/build.in requirements/dev.in pyproject.toml  ## refresh requirements/*.txt (needs uv; see CONTRIBUTING.md)
	$(UV_COMPILE) --upgrade requirements/build.in --output-file requirements/build.txt
	$(UV_COMPILE) --upgrade pyproject.toml requirements/dev.in --extra cli --extra lab --extra observe --extra bench \
		--output-file requirements/dev.txt
	$(UV_COMPILE) --upgrade requirements/fuzz.in --output-file requirements/fuzz.txt

clean:  ## remove the environment and what tools left behind
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info */*.egg-info
	find src papers workbench tests -name __pycache__ -type d -prune -exec rm -rf {} +
