# The commands of this project. `make` alone lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two steps, so that `make up` installs nothing that only tests need.
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
DATA := $(or $(XDG_DATA_HOME),$(HOME)/.local/share)/posthouse
# What `make quick` runs: the life of a job, and what users meet first.
ENGINE := $(foreach part,claim control dedupe dependencies enqueue finish limits rescue schema,\
  tests/storage/engine/test_$(part).py)
QUICK := tests/core $(ENGINE) tests/client/test_client_enqueue.py tests/client/test_client_transactions.py \
  tests/storage/embedded/test_embedded_start.py tests/storage/embedded/test_embedded_location.py \
  tests/worker/test_worker.py tests/test_smoke.py

# The tests start two thousand processes: without this each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup up test quick soak lint format bench chaos fuzz docs clean

help: ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(DEV) ## create .venv with everything in it

$(RUNTIME): pyproject.toml constraints.txt $(wildcard apps/*/pyproject.toml)
	@$(PYTHON) tools/set-up runtime $(VENV)
	@touch $@

$(DEV): $(RUNTIME)
	@$(PYTHON) tools/set-up dev $(VENV)
	@touch $@

up: $(RUNTIME) ## start Posthouse with an embedded Postgres and all applications; OPTIONS= adds options
	@$(BIN)/posthouse up --commands $(OPTIONS)

test: $(DEV) ## lint, types, layers and every test
	@$(PYTHON) tools/system-packages
	@$(MAKE) --no-print-directory lint
	$(BIN)/pytest -n auto

quick: $(DEV) ## lint, types, layers and the most important tests, in about two minutes
	@$(MAKE) --no-print-directory lint
	$(BIN)/pytest -n auto $(QUICK)

soak: $(DEV) ## the tests that take too long for `make test`, then chaos and fuzz
	@$(PYTHON) tools/system-packages
	$(BIN)/pytest -n auto -m soak
	@$(MAKE) --no-print-directory chaos fuzz

lint: $(DEV) ## ruff, mypy and import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV) ## let ruff format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(DEV) ## measure against the bare loop and the installed peers
	$(BIN)/python -m bench

SECONDS ?= 300
chaos: $(DEV) ## kill, stop and cut off each kind of worker for SECONDS, then check the recorded history
	$(BIN)/python tests/faults/chaos.py --seconds $(SECONDS) --workers direct
	$(BIN)/python tests/faults/chaos.py --seconds $(SECONDS) --workers supervised
	$(BIN)/python tests/faults/chaos.py --seconds $(SECONDS) --workers remote

EXAMPLES ?= 50
fuzz: $(DEV) ## try every route of the API with EXAMPLES requests and the edges of its schema
	SCHEMA_PHASES=examples,coverage,fuzzing SCHEMA_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/server/test_server_schema.py

docs: $(DEV) ## write the generated pages again
	$(BIN)/python tools/reference.py

clean: ## remove .venv, caches, build files and bench/results; keeps the data of `make up`
	rm -rf $(VENV) bench/peers/.venv bench/peers/node_modules bench/results build dist
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} + -o -name '*.egg-info' -prune -exec rm -rf {} +
	@for data in $(DATA) $$(cat $(DATA)/moved-to 2>/dev/null); do \
	  test ! -d $$data || echo "Kept: $$data, the data of \`make up\`. To delete it: rm -rf $$data"; done
