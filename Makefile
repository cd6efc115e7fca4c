PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run test check format slow faults bench same-loss clean

# The main job, on text that every Python carries.
run: $(VENV)/run
	$(BIN)/bertworks quickstart --out quickstart

# The whole default suite.
test: $(VENV)/dev
	$(BIN)/python -m pytest -q

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The tests that take long: the full counts of the fault tests among them.
slow: $(VENV)/dev
	$(BIN)/python -m pytest -q -m slow

faults: $(VENV)/dev
	$(BIN)/python -m pytest -q -m "slow or not slow" tests/faults

# One benchmark by name: make bench BENCH=pretrain_step
bench: $(VENV)/dev
	$(BIN)/python benchmarks/$(BENCH).py

# Prove a refactoring: the losses of a short run at BASE and here must be the same bits.
same-loss: $(VENV)/dev
	$(BIN)/python benchmarks/same_loss.py $(BASE)

$(VENV)/run: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[eval]'
	touch $@

$(VENV)/dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) quickstart build dist
