# Everything a newcomer needs: `make demo` and `make test`. Both set up .venv from the lock files.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check verify up down lock clean

help: ## show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# The stamps hold what was installed, so that a changed lock file installs again.
$(VENV)/.run: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lexloom needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "installing what lexloom needs into $(VENV): about 3 GB, some minutes, only this once"
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.run
	@echo "installing what the tests need into $(VENV): about a minute, only this once"
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	touch $@

demo: $(VENV)/.run ## train and compare three families on a real sample corpus
	$(BIN)/lexloom run sample

test: $(VENV)/.dev ## the tests
	$(BIN)/pytest

check: $(VENV)/.dev ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

verify: $(VENV)/.dev ## the slow proofs: servers, kills, a browser, clean environments
	$(BIN)/pytest -m verify --timeout 1200

up: $(VENV)/.run ## start the local stack: Prefect, MLflow, Ray and a worker
	$(BIN)/lexloom up

down: $(VENV)/.run ## stop the local stack
	$(BIN)/lexloom down

lock: ## make the lock files anew from what $(VENV) holds
	$(BIN)/python infra/lock.py

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
