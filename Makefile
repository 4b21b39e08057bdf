# Each target does its own set-up: Python 3.11 or newer with pip and venv is all that a machine needs.
# Another interpreter: make clean test PYTHON=python3.13

PYTHON ?= python3

VENV := .venv
VENV_WHEEL := .venv-wheel
VENV_LOWEST := .venv-lowest
READY := .ready

# Every machine runs the same thing: bytecode is cached as users have it, and nothing is imported from elsewhere.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# What hangs on processes and signals, and on no version of a dependency, is not tried a third time.
OF_THE_CHECKOUT := --ignore=tests/ipc/engine --ignore=tests/nodetool/bridge --ignore-glob='tests/nodetool/test_stdio_*' \
	--ignore-glob='tests/nodetool/test_hostile*' --ignore=tests/nodetool/test_isolation.py

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test bench fmt lint types test-checkout test-lowest wheel-test wheel clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/$(READY)  ## serve the example nodes on a real file, and show what goes over the wire
	@$(VENV)/bin/python docs/examples/demo.py

test: lint types test-checkout test-lowest wheel-test  ## run every check, as CI does

bench: $(VENV)/$(READY)  ## measure the speed, and compare it with its bounds
	@$(VENV)/bin/python bench/run.py

fmt: $(VENV)/$(READY)  ## format the code and mend what ruff can mend
	@$(VENV)/bin/ruff check --quiet --fix-only .
	@$(VENV)/bin/ruff format .

lint: $(VENV)/$(READY)  ## check the format and the lint rules
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .

types: $(VENV)/$(READY)  ## check the types
	@$(VENV)/bin/mypy

test-checkout: $(VENV)/$(READY)  ## run the tests on the checkout
	@$(VENV)/bin/python -m pytest --hypothesis-profile=ci

test-lowest: wheel $(VENV_LOWEST)/$(READY)  ## run the tests on the wheel with the lowest versions of its dependencies
	$(call test-wheel,$(VENV_LOWEST),$(OF_THE_CHECKOUT))

wheel-test: wheel $(VENV_WHEEL)/$(READY)  ## run the tests on the wheel, away from the checkout
	$(call test-wheel,$(VENV_WHEEL),--ignore=tests/onode)

wheel: $(VENV)/$(READY)  ## build the wheel into dist/
	@rm -rf dist
	@$(VENV)/bin/python -m pip wheel -qq --no-deps --wheel-dir dist .

clean:  ## remove the environments, the caches and what was built
	rm -rf $(VENV) $(VENV_WHEEL) $(VENV_LOWEST) .venv-peer dist build .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment is made anew when pyproject.toml changes. It is ready once its stamp file is there.

$(VENV)/$(READY): pyproject.toml
	$(call new-venv,$(VENV))
	@$(VENV)/bin/python -m pip install -qq --group dev --editable '.[cli]'
	@touch $@

$(VENV_WHEEL)/$(READY): pyproject.toml | wheel
	$(call new-venv,$(VENV_WHEEL))
	@$(VENV_WHEEL)/bin/python -m pip install -qq --group test "$$(echo dist/*.whl)[cli]"
	@touch $@

$(VENV_LOWEST)/$(READY): pyproject.toml scripts/lowest.py | wheel
	$(call new-venv,$(VENV_LOWEST))
	@$(VENV)/bin/python scripts/lowest.py > $(VENV_LOWEST)/lowest.txt
	@$(VENV_LOWEST)/bin/python -m pip install -qq --only-binary :all: --group test \
		--constraint $(VENV_LOWEST)/lowest.txt "$$(echo dist/*.whl)[cli]"
	@touch $@

# $(call new-venv,FOLDER): an empty environment, with a pip that knows dependency groups (25.1).
define new-venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "octonode-sdk needs Python 3.11 or newer, and '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)"; \
		echo "Name another one: make PYTHON=python3.13 ..."; exit 1; } >&2
	@echo "== setting up $(1)"
	@$(PYTHON) -m venv --clear $(1)
	@$(1)/bin/python -m pip install -qq --upgrade 'pip>=25.1'
endef

# $(call test-wheel,FOLDER,OPTIONS): put the wheel of this moment into that environment and run the tests there.
define test-wheel
	@echo "== testing $(notdir $(1)) with $$(basename dist/*.whl)"
	@$(1)/bin/python -m pip install -qq --no-deps --force-reinstall dist/*.whl
	@$(1)/bin/python -m pip check -qq
	@$(1)/bin/python scripts/test_installed.py --hypothesis-profile=dev $(2)
endef
