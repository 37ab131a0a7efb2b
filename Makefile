# Two commands need nothing but Python (3.11 or newer) and make:
#   make study   sets up .venv with what a study needs and runs the main job
#   make test    sets up .venv with what developers need and runs linters, types and tests
#   make nightly runs the tests that take long as well, all of them on examples that they have not seen, and some with the oldest libraries
#   make faults  kills processes and machines under every command, twenty times each: half an hour and more
#   make gpu     runs the tests that want a GPU with CUDA, on a machine that has one, and says what share of its peak is reached
#   make docs    builds the documentation site with search, in build/docs
#   make paper-tables  prints the tables of docs/experiments from archived runs (ARGS=--check only compares)
# On a machine with a GPU:  make install FAISS=gpu CONSTRAINTS=

PYTHON ?= python3
FAISS ?= cpu
CONSTRAINTS ?= constraints.txt
EXTRAS ?= $(FAISS),glove,dev
STUDY_EXTRAS ?= $(FAISS),glove
BIN := .venv/bin
# Half of what tests take is waiting for processes that Ray starts: more of them than cores.
PROCESSES ?= 3
# Each with a thread: more of them, on cores that processes share, wait for each other a third of the time.
# In the order of tests/conftest.py, with Ray's files first: the files with most tests first leave the slowest for the end.
# Bytecode is kept whatever the environment says: the tests start a hundred processes, and each would compile the project.
SHARED := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 RAY_AUTH_MODE=token $(BIN)/python -m pytest \
	--numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder
FAULTS := tests/faults tests/cluster/training

# Measured with torch's CPU build on two cores; the build that PyPI has for Linux brings several GB of CUDA besides.
SIZE_STUDY := 2.6 GB on disk, two minutes of work and the download
SIZE_ALL := 3.2 GB on disk, a few minutes of work and the download

# Two marks: .venv/installed of all that developers need, .venv/study of what a study needs alone.
STUDY := $(if $(wildcard .venv/installed),.venv/installed,.venv/study)
PINS := $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
# uv where there is one, told of pip's further indexes; of each package it takes the first index that has it. Where it fails, pip.
define install
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing pyrite-ir[$(1)] into .venv: $(2)"
	@{ command -v uv >/dev/null && UV_EXTRA_INDEX_URL="$${UV_EXTRA_INDEX_URL:-$$PIP_EXTRA_INDEX_URL}" \
	    uv pip install --quiet --python $(BIN)/python $(PINS) -e ".[$(1)]"; } \
	|| $(BIN)/pip install --quiet $(PINS) -e ".[$(1)]"
	# What Numba compiled of another version refers to its modules.
	find . -path ./.venv -prune -o -name '*.nb[ic]' -exec rm -f {} +
	touch $@
endef

.PHONY: install study test pytest nightly faults gpu docs paper-tables lint clean

install: .venv/installed

.venv/installed: pyproject.toml $(CONSTRAINTS)
	$(call install,$(EXTRAS),$(SIZE_ALL))

.venv/study: pyproject.toml $(CONSTRAINTS)
	$(call install,$(STUDY_EXTRAS),$(SIZE_STUDY))

study: $(STUDY)
	$(BIN)/pyrite study $(ARGS)

paper-tables: install
	$(BIN)/python -m benchmarks.paper_tables $(ARGS)

docs: install
	$(BIN)/mkdocs build --quiet

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# mypy and pytest side by side: a third of what tests take is waiting.
test: install
	$(MAKE) --jobs=2 lint pytest

pytest: install
	$(SHARED) $(ARGS)

gpu: install
	RAY_AUTH_MODE=token $(BIN)/python -m pytest -m gpu -rs $(ARGS)
	$(BIN)/python -m benchmarks.device

nightly: lint
	HYPOTHESIS_PROFILE=nightly $(SHARED) $(ARGS)
	$(BIN)/python -m tests.oldest_libraries

faults: install
	RAY_AUTH_MODE=token $(BIN)/python -m pytest --kills=20 $(FAULTS) $(ARGS)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache
