# make train   trains on the preset hsr; ARGS="..." is passed on to train.py
# make test    runs the tests;       ARGS="..." is passed on to pytest
# make lint    checks format, style and types
# make format  formats, and repairs what ruff can repair
# make clean   removes .venv and every cache; keeps runs/
#
# Each makes .venv first when it is needed. PYTHON says with which Python: make test PYTHON=python3.12;
# where .venv is of another one, make clean comes first.

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
SOURCES := pyproject.toml constraints.txt

# The constraints hold for the build backend too; newer pips read the second name for that.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: train test lint format clean same-python
.NOTPARALLEL:

train: .venv/.runtime
	@$(BIN)/python train.py hsr $(ARGS)

# worksteal: a worker keeps neighbouring tests, which share compiled functions, until one is idle.
test: .venv/.dev
	@$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

lint: .venv/.dev
	@echo "ruff format --check"; $(BIN)/ruff format --check --quiet . || \
	    { echo "make format repairs this."; exit 1; }
	@echo "ruff check"; $(BIN)/ruff check --quiet .
	@echo "pyright"; $(BIN)/pyright

format: .venv/.dev
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .

clean:
	@rm -rf .venv .cache .hypothesis .pytest_cache .ruff_cache build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Has whoever names a Python not be given another one.
same-python:
ifneq ($(origin PYTHON),file)
	@[ ! -x $(BIN)/python ] || [ "$$($(PYTHON) -V 2>/dev/null)" = "$$($(BIN)/python -V)" ] || { \
	    echo "$(PYTHON) is not the $$($(BIN)/python -V) of .venv: run make clean first, or leave PYTHON out."; exit 1; }
endif

# Two stamps: training needs only the runtime dependencies and starts sooner without the tools.
.venv/.runtime: $(SOURCES) | same-python
	@echo "Setting up .venv to run (about a minute) ..."
	@$(call install,.)
	@touch $@

.venv/.dev: $(SOURCES) | same-python
	@echo "Setting up .venv to develop (one or two minutes) ..."
	@$(call install,.[dev])
	@touch .venv/.runtime $@

# Makes .venv unless a working one is there, and installs $(1) into it.
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
