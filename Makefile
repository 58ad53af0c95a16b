# Every target sets up what it needs: Python 3.11 or later and make are enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
GOLDENS ?=

.PHONY: help run test lint types format bench conformance clean

help:  ## Show this help
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements-dev.txt pyproject.toml
	@echo "setting up $(VENV) (once) ..." >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kubesched needs Python 3.11 or later; set PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -r requirements-dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(READY)

run: $(READY)  ## An embedded cluster, the scheduler and a sample workload
	@$(BIN)/kubesched up

test: lint types $(READY)  ## Lint, types and all tests
	@$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(READY)  ## Style of the code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)  ## Strict types on src/
	@$(BIN)/mypy

format: $(READY)  ## Bring the code into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(READY)  ## Benchmarks, as JSON lines
	@$(BIN)/python -m benchmarks.engine --nodes 5000 --pods 5000 --kind basic
	@$(BIN)/python -m benchmarks.engine --nodes 5000 --pods 5000 --kind basic --path loop
	@$(BIN)/python -m benchmarks.queue

conformance: $(READY)  ## Compare with what the reference decided [GOLDENS=DIR]
	@$(BIN)/python -m tests.conformance $(if $(GOLDENS),--goldens $(GOLDENS))

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
