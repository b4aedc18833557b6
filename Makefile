# Two commands do all the set-up: `make quickstart` and `make test`. Nothing else needs to be installed first.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip
.PHONY: quickstart smoke test lint clean

quickstart: $(VENV)/.installed ## make the environment, train five schemes at 64 tokens, sweep to 2,048, draw the curves
	$(VENV)/bin/lengthlab train experiment=quickstart

smoke: $(VENV)/.installed ## the same in seconds, on a toy text
	$(VENV)/bin/lengthlab train experiment=smoke

test: $(VENV)/.tested ## make the environment if needed and run the tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python -m pytest -q -n 2 --dist worksteal

lint: $(VENV)/.tested
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

clean: ## remove the environment; results stay
	rm -rf $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lengthlab needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/.tested: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@
