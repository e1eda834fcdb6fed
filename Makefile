.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench

.PHONY: matrix help install demo test test-slow test-embedded check format docs bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt packages/treespec-depthdecay/pyproject.toml packages/treespec-catboost/pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e packages/treespec-depthdecay -e 'packages/treespec-catboost[test]'
	touch $(STAMP)

install: $(STAMP)  ## create .venv with everything, in editable mode

demo: $(STAMP)  ## wrap three kinds of model and distil each to 10 KB, on real data
	$(BIN)/python examples/demo.py

test: $(STAMP)  ## run the tests (doctests included)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile

test-slow: $(STAMP)  ## run the long properties too
	$(BIN)/python -m pytest -m "slow or not slow" --timeout=3600

test-embedded: $(STAMP)  ## build students for a Cortex-M3 and M4 and run their self-tests in QEMU (installs compiler and QEMU if absent)
	command -v arm-none-eabi-gcc && command -v qemu-system-arm || apt-get install -y --no-install-recommends gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
	$(BIN)/python benchmarks/embedded.py

check: $(STAMP)  ## ruff, mypy, import-linter, documented hooks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_docs.py

format: $(STAMP)  ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	touch $(BENCH_STAMP)

bench: $(BENCH_STAMP)  ## run the benchmarks and print their tables (long)
	$(BIN)/python benchmarks/distill.py
	$(BIN)/python benchmarks/conformance.py
	$(BIN)/python benchmarks/differential.py
	$(BIN)/python benchmarks/fuzz.py
	$(BIN)/python benchmarks/exactness.py
	$(BIN)/python benchmarks/influence.py
	$(BIN)/python benchmarks/spectrum.py
	$(BIN)/python benchmarks/similarity.py
	$(BIN)/python benchmarks/kpp.py

matrix:  ## run the tests with the oldest and newest versions, and with each extra hidden (long)
	PYTHON=$(PYTHON) .ci/matrix

clean:  ## remove .venv and everything built
	rm -rf $(VENV) site build dist .pytest_cache .mypy_cache .ruff_cache
