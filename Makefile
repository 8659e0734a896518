# make train        train on the preset hsr; ARGS="..." is passed to train.py
# make test         run the tests, without those marked slow; ARGS="..." is passed to pytest
# make test-all     run all tests but those marked gpu; ARGS="..." is passed to pytest
# make test-gpu     run the tests of exactness on an NVIDIA GPU; needs jax with CUDA in .venv
# make wheel-check  build the wheel, install it into an empty environment and use it there
# make docs         build the site in build/site; warnings are errors
# make lint         check format, style and types
# make format       format, and fix what ruff can fix
# make clean        remove .venv and all caches; keeps runs/
#
# Each target creates .venv if needed, with the Python in PYTHON: make test PYTHON=python3.12.
# If .venv has another version of Python, run make clean first.

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
SOURCES := pyproject.toml constraints.txt

# The constraints apply to the build backend too; newer versions of pip read the second name.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: train test test-all test-gpu wheel-check docs lint format clean same-python
.NOTPARALLEL:

train: .venv/.runtime
	@$(BIN)/python train.py hsr $(ARGS)

# worksteal: neighbouring tests share compiled functions, so a worker keeps them until one is idle.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

test: .venv/.dev
	@$(PYTEST) $(ARGS)

test-all: .venv/.dev
	@$(PYTEST) -m "not gpu" $(ARGS)

# Without TF32, which rounds the inputs of matrix products to 10 bits: with it, the network's output
# for an element alone and for the same element in a batch differ by more than the tests allow.
GPU_TESTS := tests/benchmarks/test_benchmark_compiled.py \
    $(patsubst %,tests/search/test_%.py,kernels mctx twin subtree parallel_leaves tree) \
    $(patsubst %,tests/policies/test_%.py,policies puct_options several_trees contempt alphago top_actions new_variant)
test-gpu: .venv/.dev
	@$(BIN)/python -c 'import jax; jax.devices("cuda")' 2>/dev/null || { \
	    echo "jax found no NVIDIA GPU. Install CUDA for it: $(BIN)/python -m pip install -e '.[gpu]'"; exit 1; }
	@JAX_PLATFORMS=cuda,cpu JAX_DEFAULT_MATMUL_PRECISION=highest \
	    $(BIN)/python -m pytest -m "" $(GPU_TESTS) $(ARGS)

wheel-check: .venv/.dev
	@$(BIN)/python tests/wheel_check.py

# The pages run their examples, in two processes; the exit code is that of Sphinx.
docs: .venv/.docs
	@$(BIN)/python -m sphinx -q -W --keep-going -j 2 -c docs -d build/doctrees $(ARGS) . build/site
	@echo "The site is in build/site: open build/site/index.html."

lint: .venv/.dev
	@echo "ruff format --check"; $(BIN)/ruff format --check --quiet . || \
	    { echo "make format fixes this."; exit 1; }
	@echo "ruff check"; $(BIN)/ruff check --quiet .
	@echo "pyright"; $(BIN)/pyright

format: .venv/.dev
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

clean:
	@rm -rf .venv .cache .hypothesis .pytest_cache .ruff_cache build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Fails if PYTHON is given but .venv was built with a different version.
same-python:
ifneq ($(origin PYTHON),file)
	@[ ! -x $(BIN)/python ] || [ "$$($(PYTHON) -V 2>/dev/null)" = "$$($(BIN)/python -V)" ] || { \
	    echo "$(PYTHON) is not the $$($(BIN)/python -V) of .venv: run make clean first, or leave PYTHON out."; exit 1; }
endif

# Three stamps: training needs only the runtime dependencies, so make train sets up faster.
.venv/.runtime: $(SOURCES) | same-python
	@echo "Setting up .venv to run (about a minute) ..."
	@$(call install,.)
	@touch $@

.venv/.dev: $(SOURCES) | same-python
	@echo "Setting up .venv to develop (one or two minutes) ..."
	@$(call install,.[dev])
	@touch .venv/.runtime $@

.venv/.docs: $(SOURCES) | same-python
	@echo "Setting up .venv to build the site (one or two minutes) ..."
	@$(call install,.[docs])
	@touch .venv/.runtime $@

# Creates .venv unless a working one exists, and installs $(1) into it.
define install
$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
    $(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
        echo "$(PYTHON) is not Python 3.11, 3.12 or 3.13. Install one and name it: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }; \
    rm -rf .venv; \
    $(PYTHON) -m venv .venv >/dev/null 2>&1 || { rm -rf .venv; \
        echo "$(PYTHON) -m venv failed. Install Python's venv module (Debian, Ubuntu: apt install python3-venv) and run make again."; exit 1; }; \
}; \
$(BIN)/python -m pip install -qq -e "$(1)" || { \
    echo "Installing failed, see above. Check the network and run make again; if it fails again, run make clean first."; exit 1; }
endef
