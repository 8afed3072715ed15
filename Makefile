# make run     the demo: server, scheduler, worker and API, with jobs to look at; Ctrl-C stops it
# make test    the tests
# make lint    style and types
#
# Each makes .venv first if need be. PYTHON names the interpreter that it is made with.

PYTHON ?= python3
PIP := .venv/bin/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt

.PHONY: run test lint

run: .venv/run
	@.venv/bin/waterclock up --demo

test: .venv/dev
	@.venv/bin/python -m pytest

lint: .venv/dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

# What was installed, as stamps in the environment itself: they go when it goes. Both install the
# checkout in place, so either serves `make run`.

.venv/run: .venv/python
	@echo "installing Waterclock into .venv"
	@$(PIP) --editable .
	@touch $@

.venv/dev: .venv/python
	@echo "installing Waterclock and its tools into .venv"
	@$(PIP) --editable '.[dev]'
	@touch .venv/run $@

.venv/python: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Waterclock needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@$(PYTHON) -m venv .venv
	@touch $@
