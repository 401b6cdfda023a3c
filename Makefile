# noshow: `make run` compares nine algorithms under an adversary; `make test` lints, type-checks and tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.installed
DEV := $(VENV)/.installed-dev
BENCH := .venv-bench
BENCHED := $(BENCH)/.installed

.PHONY: run test test-all fuzz audit lint format docs wheel bench clean

run: $(RUN)
	$(BIN)/noshow run synthetic-0.9 --report

# Compiling takes most of the time: here with little optimising, in `make test-all` as users do.
test: lint
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/python -m pytest -m "not long" --numprocesses auto --maxprocesses 4

test-all: lint
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4

# More than 10,000 files with something wrong in them, each of which must work or be told in one sentence.
fuzz: $(DEV)
	NOSHOW_FUZZ=1200 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 tests/test_fuzz.py

# Whether a package that noshow needs is known to be unsafe. Asks a service on the network.
audit: $(DEV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python -m pip_audit --skip-editable

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site, into site/: every warning is an error.
docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What `pip install` gets, into dist/: the source archive, and the wheel made from it.
wheel: $(DEV)
	rm -rf dist
	$(BIN)/python -m build

bench: $(BENCHED)
	$(BENCH)/bin/noshow bench --out runs/bench.md

clean:
	rm -rf $(VENV) $(BENCH) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "noshow needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)

$(RUN): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[report]'
	touch $@

$(DEV): pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(RUN) $@

# ByzFL and ByzPy ask for versions of PyTorch's family that do not go together with it: they come without their wishes.
$(BENCHED): pyproject.toml benchmarks/peers.txt benchmarks/peers-alone.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt --editable .
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement benchmarks/peers-alone.txt
	touch $@
