# Release Desk. `make help` lists what there is; a fresh machine needs Python >= 3.11 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := $(VENV)/.packages-installed
READY := $(VENV)/.ready
PEERS := .venv-peers/.ready
PIP := $(BIN)/python -m pip --disable-pip-version-check

HOST ?= 127.0.0.1
PORT ?= 8000
ONCE ?=
QUICK ?=
JOBS ?=
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-wide test-slow test-timed test-all coverage check check-types check-rules proofs format bench scale studies peers lock lock-peers wheel clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Variables: PYTHON=python3.12  ONCE=1 (demo stops by itself)  HOST= PORT= (serve)  JOBS= ARGS= (test, test-wide, test-slow, test-timed, coverage)  ARGS= (demo, serve, bench, studies, peers)  QUICK=1 (studies, peers in minutes)"

demo: $(READY) ## Start a service, upload real data, release numbers from it, leave it up (ONCE=1: stop)
	@$(BIN)/release-desk demo $(if $(filter-out 0,$(ONCE)),--once) $(ARGS)

serve: $(READY) ## Serve ./data on HOST:PORT
	@$(BIN)/release-desk serve --host $(HOST) --port $(PORT) $(ARGS)

# One file stays on one core: its tests may share a server. The draws gain nothing from BLAS threads.
# The longest file begins first (tests/conftest.py). Compiled files are kept, whatever the shell says of
# them: every process of the tests would compile them all again.
# Draws from a seed are compared with stored ones, and a sampler may look further or less far where the last
# bits of a product or a logarithm differ: all processors take the same kernels, of OpenBLAS and of numpy.
KERNELS := OPENBLAS_CORETYPE=Haswell $(if $(filter x86_64,$(shell uname -m)),NPY_DISABLE_CPU_FEATURES="X86_V4 AVX512_ICL AVX512_SPR")
PYTEST = OMP_NUM_THREADS=1 $(KERNELS) PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(or $(JOBS),$(CORES)) --dist loadfile --no-loadscope-reorder
CORES = $(shell getconf _NPROCESSORS_ONLN)

# Some of these wait for a server or a clock: one process more than there are cores keeps all busy; of
# slow ones two, as they wait for kills, leases, downloads and a browser a third of their time.
# Each further one costs 12 seconds of a core before its first test: modules, servers, all collected.
test test-wide coverage: CORES = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
test-slow: CORES = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

# The plugin of generated requests is for slow tests, and takes seconds to load. How the sources look is
# for `make check` to say.
QUICKLY = $(PYTEST) -p no:schemathesis --in-memory $(addprefix --ignore=,$(HOUSE_TESTS))
HOUSE_TESTS := tests/test_house.py tests/test_structure.py

test: $(READY) ## Run the tests of every change, on every core, in minutes (JOBS=1: on one)
	$(QUICKLY) -m '$(NOT_SLOW)$(UNTRACED)$(if $(EVERY),, and not wide and not postgres)' $(ARGS)

test-wide: $(READY) ## Run more cases of the same, and those on PostgreSQL
	$(QUICKLY) -m '$(NOT_SLOW) and (wide or postgres) and not traced' $(ARGS)

# In a run of every test these two are one, by processes that begin and collect once. Of slow tests,
# only such a run has those that are wide too. What `coverage` runs is run by it alone.
EVERY := $(filter test-all,$(MAKECMDGOALS))
UNTRACED := $(if $(filter test-all coverage,$(MAKECMDGOALS)), and not traced)
NOT_SLOW := not slow and not long
SLOW := slow and not long$(if $(EVERY),, and not wide)

test-slow: $(READY) ## Run the tests that take long: kills, faults, the browser, the image
	$(PYTEST) -m '$(SLOW) and not timed' $(ARGS)

test-timed: $(READY) ## Run those that measure how long others wait: floods, hostile uploads
	$(PYTEST) -m '$(SLOW) and timed' $(ARGS)

test-all: test test-slow test-timed coverage ## Run every test, as before a release

# The files and the bar are in pyproject.toml, and the tests in tests/traced.json: those that take every
# branch, and none that take long for what two others take. One run: data of several runs do not add up
# over cores.
coverage: $(READY) ## Run the ledger's tests; fail unless they take every branch of it
	$(QUICKLY) -q -m 'traced and $(NOT_SLOW)' --cov --cov-config=pyproject.toml --cov-report=term $(ARGS)

check: $(READY) ## Format, lint, types, import rules, migrations, OpenAPI snapshot
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target check-types check-rules

# Types take as long as all the rest.
check-types:
	$(BIN)/mypy

check-rules:
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q $(HOUSE_TESTS) tests/app/test_store_migrations.py tests/contract/test_openapi.py

proofs: $(READY) ## Check the machine-checked lemmas; takes Coq
	$(BIN)/python -m tests.lemmas

format: $(READY) ## Rewrite the sources in the house's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# `make bench scale` is `make bench ARGS=scale`: one run, and of nothing else.
bench: $(READY) ## Reproduce the accuracy and speed figures (make bench scale: time and memory by rows)
	$(BIN)/python -m studies.bench $(if $(filter scale,$(MAKECMDGOALS)),scale $(if $(filter-out 0,$(QUICK)),--quick)) $(ARGS)

scale: bench
	@:

# One thread each: two processes are at work.
studies: $(READY) ## Reproduce the papers' figures: CSV, pictures, findings (QUICK=1: in minutes)
	OMP_NUM_THREADS=1 $(BIN)/python -m studies.figures $(if $(filter-out 0,$(QUICK)),--quick) $(ARGS)

peers: $(READY) $(PEERS) ## Compare with other libraries, in an environment of theirs (QUICK=1: in minutes; else hours)
	OMP_NUM_THREADS=1 $(BIN)/python -m studies.peers $(if $(filter-out 0,$(QUICK)),--quick) $(ARGS)

# A throwaway environment holds the resolver, so nothing but the lock needs to be trusted.
lock: ## Resolve pyproject.toml into requirements.lock (UPGRADE=1: newest versions)
	@set -e; home=$$(mktemp -d); trap 'rm -rf "$$home"' EXIT; \
	$(PYTHON) -m venv "$$home"; "$$home/bin/python" -m pip install --quiet --disable-pip-version-check uv; \
	"$$home/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--group dev $(if $(UPGRADE),--upgrade) --output-file requirements.lock pyproject.toml
	@! grep -n '^-' requirements.lock || { echo "requirements.lock must not name an index"; exit 1; }

# From its own folder, where the resolver reads for which versions of Python.
lock-peers: ## Resolve studies/peers/pyproject.toml into its lock
	@set -e; home=$$(mktemp -d); trap 'rm -rf "$$home"' EXIT; \
	$(PYTHON) -m venv "$$home"; "$$home/bin/python" -m pip install --quiet --disable-pip-version-check uv; \
	cd studies/peers; "$$home/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --output-file requirements.lock pyproject.toml
	@! grep -n '^-' studies/peers/requirements.lock || { echo "the lock must not name an index"; exit 1; }

wheel: $(READY) ## Build dist/*.whl: the service, and the client alone
	@rm -rf $(MADE_OF_WHEEL)
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist ./clients/python
	@rm -rf $(MADE_OF_WHEEL) $(MADE_OF_CLIENT)

# What a build leaves; results of studies stay beside it.
MADE_OF_WHEEL := build/lib build/bdist.*

# What a build of the client leaves where it is made.
MADE_OF_CLIENT := $(addprefix clients/python/, build release_desk_client release_desk_client.egg-info)

clean: ## Remove the environment and every cache
	rm -rf $(VENV) $(dir $(PEERS)) build dist *.egg-info $(MADE_OF_CLIENT) .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# --clear: what is installed is what the lock says, also after a package left it. --no-deps: the lock
# names all of it, and pip may take a newer release of what is asked for with an extra. `check` sees to
# it that nothing is missing. pip would compile what it installs on one core, compileall does on all; a
# file that is a template and no module is not compiled.
$(PACKAGES): requirements.lock
	@command -v $(PYTHON) >/dev/null || { \
		echo "Release Desk needs Python 3.11 or newer, and '$(PYTHON)' was not found."; \
		echo "On Debian: apt-get install python3 python3-venv. Or name one: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Release Desk needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)."; \
		echo "Name another one: make PYTHON=/path/to/python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make virtual environments. On Debian: apt-get install python3-venv."; exit 1; }
	@echo "Installing the locked packages into $(VENV) (a minute or two, once) ..."
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --quiet --no-compile --require-hashes --no-deps --requirement requirements.lock
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@$(PIP) check
	@touch $@

$(READY): $(PACKAGES) pyproject.toml
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# The peers need packages that the service must never see, and some of them an older Python than it.
$(PEERS): studies/peers/requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || { \
		echo "The peers need Python 3.11 or 3.12. Name one: make peers PYTHON=/path/to/python3.12"; exit 1; }
	@echo "Installing the peers into .venv-peers (some minutes and 1.9 GB, once) ..."
	@$(PYTHON) -m venv --clear .venv-peers
	@.venv-peers/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps --requirement $<
	@touch $@
