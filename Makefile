# Every target sets up what it needs: Python 3.11 or later and make are enough.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
PAGE_READY := ui/node_modules/.ready
GOLDENS ?=
WORKLOADS ?= $(KUBESCHED_WORKLOADS)
QUICK  := performance,short

.PHONY: help faults torture fuzz soak live run ui screenshots test lint types page format dist docs bench bench-compare million conformance clean

help:  ## Show this help
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements-dev.txt pyproject.toml setup.py src/kubesched/framework/engine/_compiled.c
	@echo "setting up $(VENV) (once) ..." >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kubesched needs Python 3.11 or later; set PYTHON=...")'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install -r requirements-dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(READY)

run: $(READY)  ## An embedded cluster, the scheduler and a sample workload
	@$(BIN)/kubesched up

test: lint types page $(READY)  ## Lint, types and all tests
	@$(BIN)/python -m pytest -n auto --dist worksteal

page:  ## Lint, types and tests of the page (needs Node.js)
	@if command -v npm >/dev/null; then \
		$(MAKE) -s $(PAGE_READY) && cd ui && npm run -s lint && npm test --silent; \
	else \
		echo "Node.js is not installed; the tests of ui/ are skipped" >&2; \
	fi

$(PAGE_READY): ui/package-lock.json
	@cd ui && npm ci --no-audit --no-fund --silent
	@touch $@

lint: $(READY)  ## Style of the code
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(READY)  ## Strict types on src/
	@$(BIN)/mypy

format: $(READY)  ## Bring the code into shape
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

dist: $(READY)  ## The sdist and the wheel, in dist/
	@$(BIN)/python -m build --no-isolation --outdir dist .

docs: $(READY)  ## The documentation site, in build/site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(READY)  ## Benchmarks, as JSON lines; a few minutes [WORKLOADS=DIR]
	@$(BIN)/python -m benchmarks.engine --nodes 1000,5000,50000 --kind all
	@$(BIN)/python -m benchmarks.loop
	@$(BIN)/python -m benchmarks.preemption
	@$(BIN)/python -m benchmarks.simulate --scale 0.05
	@$(BIN)/python -m benchmarks.queue
	@$(BIN)/python -m benchmarks.cel
	@$(BIN)/python -m benchmarks.memory
	@$(BIN)/python -m benchmarks.requests
	@$(BIN)/python -m benchmarks.drain
	@$(BIN)/python -m benchmarks.start_up --repeat 1
	@$(BIN)/python -m benchmarks.apiserver
	@$(BIN)/python -m benchmarks.dashboard --repeat 3
	@$(if $(WORKLOADS),$(BIN)/python -m benchmarks.scheduler_perf --workloads $(WORKLOADS) --labels $(QUICK),echo "scheduler_perf left out: WORKLOADS=DIR names kubernetes' test/integration/scheduler_perf" >&2)

bench-compare: $(READY)  ## Instructions and CPU time of two versions [BASE=COMMIT]
	@$(BIN)/python -m benchmarks.compare $(or $(BASE),main)

million: $(READY)  ## A million pods on a million nodes: minutes, and 4 GiB
	@$(BIN)/python -m benchmarks.million

conformance: $(READY)  ## Compare with the reference, write docs/conformance.md [GOLDENS=DIR]
	@$(BIN)/python -m tests.conformance $(if $(GOLDENS),--goldens $(GOLDENS),--write)

ui:  ## Build the page from ui/ into the package (needs Node.js)
	@$(MAKE) -s page && cd ui && npm run build

screenshots: $(READY)  ## Pictures of the page for the documents (needs Chromium)
	@$(BIN)/python -m benchmarks.screenshots docs/images

faults: $(READY)  ## Fault injection from seeds, in virtual time [SEEDS=1000 FROM=50000 JOBS=2]
	@$(BIN)/python -m tests.fault_injection --seeds $(or $(SEEDS),300) --from $(or $(FROM),0) $(if $(JOBS),--jobs $(JOBS))

torture: faults  ## Another name for faults

fuzz: $(READY)  ## Hostile inputs, new ones every time [MINUTES=10]
	@$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10)

soak: $(READY)  ## Real processes under churn, kill -9, full disks, rotation [MINUTES=15]
	@$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),15)

live: $(READY)  ## Faults on a real control plane, if its programs are there [MINUTES=10 SEED=0]
	@$(BIN)/python -m tests.live --minutes $(or $(MINUTES),10) --seed $(or $(SEED),0)

clean:  ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
