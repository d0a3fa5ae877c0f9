# Two commands are enough: `make demo` and `make test`. Both set up what they need first.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Compiled once and not by every process of every test.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo test test-beside test-plain test-spark test-processes test-extended test-fast test-ui test-kafka test-workloads differential torture lint coverage mutants docs bench clean

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PLAIN := not spark and not ui and not kafka

help:
	@echo 'make setup      .venv with the command penstock in it, and Java if it can be installed'
	@echo 'make demo       set up, then count words under a changing load for 80 seconds'
	@echo 'make test       set up, then lint, type-check and run all tests'
	@echo 'make test-fast  the tests that need no Spark, without the large ones'
	@echo 'make test-extended  further cases of tests that take long'
	@echo 'make test-ui    the dashboard in a browser; chromium is installed if it can be'
	@echo 'make test-kafka a live change between topics of a real Kafka broker, which Maven installs'
	@echo 'make test-workloads  every built-in workload on Spark, with changes while it runs'
	@echo 'make differential  compare jobs and random queries with batch mode; SEEDS="1 2" EXAMPLES=20'
	@echo 'make torture    change and kill a flow at random instants; SEEDS="1 2 3"'
	@echo 'make lint       ruff, mypy and the order of the layers'
	@echo 'make coverage   lines that the tests without Spark run, by package (a report, no limit)'
	@echo 'make mutants    which random edits of the code the tests notice; COUNT=20 SEED=1 PACKAGES="plan control"'
	@echo 'make docs       the documentation, into site/'
	@echo 'make bench      measure against plain Spark (takes a while)'
	@echo 'make clean      remove .venv and caches; runs/ stays'

# The stamp is made last: a set-up that was interrupted is done again, a finished one is not.
$(INSTALLED): pyproject.toml lab/pyproject.toml scripts/make-venv.sh
	scripts/make-venv.sh $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -e './lab[apps]'
	touch $@

setup: $(INSTALLED)
	scripts/ensure-java.sh

demo: setup
	$(BIN)/penstock run wordcount --for 80s --load steps:2000,8000,4000@20s

# The modules that have a mark: to collect all the others would take longer than some tests.
marked = $(sort $(shell grep -rl --include='test_*.py' 'mark\.$(1)\>' tests))

# Tests that start Spark in processes of their own. They take their time starting it.
PROCESSES := $(addprefix tests/test_,cluster.py end_to_end.py submit.py torture.py)

# Browser and Spark wait more than they compute, so other tests run beside them. Tests in one Spark
# session take as long as the plain ones and those with processes of their own together.
test: setup
	$(MAKE) --no-print-directory --jobs=2 --output-sync lint test-ui
	$(MAKE) --no-print-directory --jobs=2 --output-sync test-spark test-beside

test-beside: $(INSTALLED)
	$(MAKE) --no-print-directory test-plain
	$(MAKE) --no-print-directory test-processes

test-plain: $(INSTALLED)
	nice -n 10 $(BIN)/python -m pytest -m '$(PLAIN) and not extended' -n auto --hypothesis-profile=repeatable

test-spark: setup
	$(BIN)/python -m pytest -m 'spark and not all_workloads and not extended' --durations=12 --hypothesis-profile=repeatable $(filter-out $(PROCESSES),$(call marked,spark))

test-processes: setup
	nice -n 10 $(BIN)/python -m pytest -m 'spark and not extended' --durations=12 --hypothesis-profile=repeatable $(PROCESSES)

test-extended: setup
	$(BIN)/python -m pytest -m '$(PLAIN) and extended' -n auto

test-fast: $(INSTALLED)
	$(BIN)/python -m pytest -m '$(PLAIN) and not large and not extended' -n auto --hypothesis-profile=repeatable

test-ui: $(INSTALLED)
	scripts/ensure-chromium.sh
	$(BIN)/python -m pytest -m ui --durations=5 $(call marked,ui)

test-kafka: setup
	$(BIN)/python -m pytest -m kafka tests/test_kafka.py

test-workloads: setup
	$(BIN)/python -m pytest -m 'spark or all_workloads' tests/lab/workloads

# Jobs in every cut with changes for each seed, then random queries; the first seed is theirs, too.
EXAMPLES ?= 10
differential: SEEDS = 1
differential: setup
	PENSTOCK_DIFFERENTIAL_SEEDS='$(SEEDS)' PENSTOCK_DIFFERENTIAL_EXAMPLES=$(EXAMPLES) \
	$(BIN)/python -m pytest tests/differential --durations=12 --hypothesis-seed=$(firstword $(SEEDS))

SEEDS ?= 1 2 3 4 5
torture: setup
	$(BIN)/python -m tests.torture $(SEEDS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

coverage: $(INSTALLED)
	$(BIN)/python -m pytest -m '$(PLAIN) and not extended' -n auto --cov=penstock --cov=penstock_lab --cov-report=
	$(BIN)/python scripts/coverage_by_package.py

COUNT ?= 20
SEED ?= 1
PACKAGES ?= plan metrics dataflow policies store control predict
mutants: $(INSTALLED)
	nice -n 10 $(BIN)/python scripts/mutants.py --count $(COUNT) --seed $(SEED) $(PACKAGES)

# Built without a network; a warning is an error. The notice it would print is about its own future.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

bench: setup
	$(BIN)/python -m bench
	$(BIN)/python scripts/docs/table.py

clean:
	rm -rf $(VENV) build dist lab/dist site .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
