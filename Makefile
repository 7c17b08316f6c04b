# Everything a newcomer or CI needs; each target makes what it depends on, and a second call is quick.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
.DEFAULT_GOAL := help

.PHONY: help run test test-all check format bench bench-peers docs clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"unlazy needs Python 3.11 or newer, found {v.major}.{v.minor}: call make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# One stamp per set of extras, remade when the dependencies change.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[test]'
	@touch $@ $(VENV)/.run

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[docs]'
	@touch $@ $(VENV)/.run

run: $(VENV)/.run  ## draw Figure 1 of Arora et al. 2019 and check its claims
	$(BIN)/unlazy run arora2019/figure1

test: check  ## lint, types and all tests but the slow ones
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --quiet

test-all: check  ## the slow tests too, compiled as users' programs are
	XLA_FLAGS= $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --quiet -m ''

check: $(VENV)/.test  ## formatting, lint and types
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/basedpyright --level error

format: $(VENV)/.test  ## apply formatting and the lint fixes that are safe
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test  ## speed, as ratios against limits
	$(BIN)/python -m benchmarks

bench-peers: $(VENV)/.test  ## speed and memory against neural-tangents and PyTorch, in environments of their own
	$(BIN)/python -m benchmarks.peers

docs: $(VENV)/.docs  ## build the documentation into site/
	$(BIN)/python docs/reference.py
	$(BIN)/zensical build --clean --strict

clean:  ## remove everything that these targets made, the stored runs too
	rm -rf $(VENV) .peers site dist build runs .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
