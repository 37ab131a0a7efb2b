# Two commands need nothing but Python (3.11 or newer) and make:
#   make study   sets up .venv and runs the main job
#   make test    sets up .venv and runs linters, types and tests
#   make nightly runs the tests on examples that it has not seen
#   make faults  kills processes and machines under every command, twenty times each: half an hour and more
# On a machine with a GPU:  make install FAISS=gpu CONSTRAINTS=

PYTHON ?= python3
FAISS ?= cpu
CONSTRAINTS ?= constraints.txt
EXTRAS ?= $(FAISS),glove,dev
BIN := .venv/bin
FAULTS := tests/faults tests/cluster/commands tests/cluster/training

.PHONY: install study test nightly faults lint clean

install: .venv/installed

.venv/installed: pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet $(if $(CONSTRAINTS),-c $(CONSTRAINTS)) -e ".[$(EXTRAS)]"
	touch $@

study: install
	$(BIN)/pyrite study $(ARGS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	RAY_AUTH_MODE=token $(BIN)/python -m pytest --numprocesses=2 --dist=loadgroup $(ARGS)

nightly: lint
	HYPOTHESIS_PROFILE=nightly RAY_AUTH_MODE=token $(BIN)/python -m pytest --numprocesses=2 --dist=loadgroup $(ARGS)

faults: install
	RAY_AUTH_MODE=token $(BIN)/python -m pytest --kills=20 $(FAULTS) $(ARGS)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
