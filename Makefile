# Two commands matter: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# Threads that spin while they wait make small tensor operations ten times slower on a machine that is shared.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test lint clean
.DELETE_ON_ERROR:

demo: $(STAMP)
	$(BIN)/python examples/demo.py --out out/demo

test: $(STAMP) lint
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check src tests examples benchmarks
	$(BIN)/ruff format --check src tests examples benchmarks
	$(BIN)/mypy

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf $(VENV) out .mypy_cache .pytest_cache .ruff_cache
