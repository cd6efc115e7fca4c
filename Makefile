PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

INSTALL_CHROMIUM = { test "$$(id -u)" = 0 && apt-get update -qq && \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends chromium; }
NO_CHROMIUM = Chromium is missing and could not be installed, so the tests that need a browser \
	are skipped; as root, on a machine that reaches Debian's packages: apt-get install chromium

.PHONY: run test browser check format slow faults bench same-loss locked hashes audit clean

# The main job, on text that every Python carries.
run: $(VENV)/run
	$(BIN)/bertworks quickstart --out quickstart

# The whole default suite.
test: $(VENV)/dev browser
	$(BIN)/python -m pytest -q

# Debian's Chromium, with which the tests look at the pages that we write.
browser:
	@command -v chromium >/dev/null || $(INSTALL_CHROMIUM) || echo "$(NO_CHROMIUM)" >&2

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

# A share of the service's counts: make faults SHARE=0.01
SHARE ?= 1
faults: $(VENV)/dev
	$(BIN)/python -m pytest -q -m "slow or not slow" tests/faults
	$(BIN)/python benchmarks/service_faults.py --share $(SHARE)

# One benchmark by name: make bench BENCH=pretrain_step
bench: $(VENV)/dev
	$(BIN)/python benchmarks/$(BENCH).py

# Prove a refactoring: the losses of a short run at BASE and here must be the same bits.
same-loss: $(VENV)/dev
	$(BIN)/python benchmarks/same_loss.py $(BASE)

# The environment of `make test`, in which every file was compared with its sha256 in supply/: with
# PyPI's torch, or with TORCH=cpu without CUDA, where pip finds such a wheel.
TORCH ?= cuda
LOCKED = $(BIN)/python -m pip install --quiet --no-deps --require-hashes --no-build-isolation
locked:
	$(PYTHON) -m venv --clear $(VENV)
	$(LOCKED) --only-binary :all: --requirement supply/hashes-build.txt
	$(LOCKED) --requirement supply/hashes.txt --requirement supply/hashes-$(TORCH).txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	touch $(VENV)/run $(VENV)/dev

# The sha256 of all files of the pinned versions, as PyPI tells them; WHEELS=FOLDER for torch+cpu.
hashes:
	$(PYTHON) supply/write_hashes.py $(if $(WHEELS),--wheels $(WHEELS))

# Whether a known hole is in any of them; asks PyPI, and fails where it cannot.
audit:
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet pip-audit
	cat supply/hashes.txt supply/hashes-build.txt supply/hashes-cuda.txt >$(VENV)/audit/all.txt
	$(VENV)/audit/bin/pip-audit --strict --require-hashes --disable-pip --requirement $(VENV)/audit/all.txt

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
