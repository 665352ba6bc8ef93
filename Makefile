# make run: set up and do the main job. make test: set up and run every test. make help: the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
FULL := $(VENV)/.full

.PHONY: help run setup test quick lint types coverage bench soak docs clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

# Without a C compiler the installation still works, and says that exploring will be slow.
$(CORE): pyproject.toml setup.py constraints.txt $(wildcard pdproto/check/native/*.[ch] kernels/*.c)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "pdproto needs Python 3.11 or later: make PYTHON=python3.11 run"; exit 1; }
	@command -v $${CC:-cc} >/dev/null \
	  || echo "no C compiler: exploring will be slow (Debian: apt-get install gcc libc6-dev)"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

# torch comes first and pinned: any other request for it pulls gigabytes of CUDA packages.
$(FULL): $(CORE)
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable \
	  '.[test,kernels,plot,mooncake,nixl]'
	touch $@

setup: $(CORE) ## make the virtual environment and install pdproto into it

run: $(CORE) ## check the hand-over and the examples, and show a counterexample
	$(BIN)/pdproto check
	@for system in two-phase-commit ring-election; do $(BIN)/pdproto check $$system || exit 1; done
	@mkdir -p out
	$(BIN)/pdproto check lock-server-broken --html out/lock-server-broken.html; test $$? -eq 1
	$(BIN)/pdproto handoff --requests 100 --pp 2
	@echo "open out/lock-server-broken.html in a browser to step through the counterexample"

lint: $(FULL)
	$(BIN)/ruff check .

types: $(FULL)
	$(BIN)/mypy

test: lint types ## everything that must hold: lint, types, tests
	$(BIN)/python -m pytest -n 2

# Apart, because tracing every line doubles the time.
coverage: $(FULL) ## the tests once more, and which lines none of them runs
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered

quick: $(FULL) ## the tests without the slow ones
	$(BIN)/python -m pytest -n 2 -m "not slow"

SGLANG := .venv-sglang

$(SGLANG)/.installed: pyproject.toml tests/sglang/requirements.txt
	test -x $(SGLANG)/bin/python || $(PYTHON) -m venv $(SGLANG)
	$(SGLANG)/bin/python -m pip install --quiet torch==2.13.0
	$(SGLANG)/bin/python -m pip install --quiet --no-deps sglang==0.5.23
	$(SGLANG)/bin/python -m pip install --quiet --requirement tests/sglang/requirements.txt
	$(SGLANG)/bin/python -m pip install --quiet --constraint constraints.txt --editable . \
	  pytest pytest-cov pytest-xdist hypothesis
	touch $@

test-sglang: $(SGLANG)/.installed ## the tests under SGLang itself (installs 2.3 GB)
	$(SGLANG)/bin/python -m pytest tests/sglang -W default

bench: $(FULL) ## what the README says about speed, measured here
	$(BIN)/python -m tests.bench

SECONDS ?= 600

soak: $(CORE) ## real processes while everything goes wrong, for SECONDS=600; writes docs/soak.md
	$(BIN)/pdproto soak --seconds $(SECONDS) --record docs/soak.md \
	  --commit $$(git rev-parse --short HEAD)

docs: $(CORE) ## write docs/tables anew from the tables
	@for system in $$($(BIN)/python -c 'from pdproto.check.load import BUILT_IN; print(*BUILT_IN)'); do \
	  $(BIN)/pdproto tables $$system --output docs/tables/$$system.md || exit 1; done

clean:
	rm -rf $(VENV) $(SGLANG) build dist out *.egg-info .mypy_cache .pytest_cache .ruff_cache
