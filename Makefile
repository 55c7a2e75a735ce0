# make run     install what is needed, then the guided run on real text
# make test    install what is needed, then all fast tests
# make test-lacking   tests of writing with each thing that the system offers switched off in turn
# make check   linters and types
# make docs    the documentation as a site, in build/site
# make test-slow   the tests marked slow (long races, conformance, parity, kill -9)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install -q --disable-pip-version-check
PINNED := $(PIP) --require-hashes -r
# what was compiled is kept, or each of many processes of the tests would do it again
export PYTHONDONTWRITEBYTECODE :=
# compiled as an installer does; every start is quicker by it
OURS := $(PIP) --no-deps --no-build-isolation -e . && $(BIN)/python -m compileall -q src

.PHONY: run test test-slow test-lacking check docs pins clean

run: $(VENV)/.run
	$(BIN)/copydesk demo

test: $(VENV)/.test
	$(BIN)/pytest -n auto -m "not slow"

# a good part of their time these wait: for the disk, a lock, another process
WAITING = $$($(BIN)/python -c "import os; print(os.cpu_count() * 2)")

test-slow: $(VENV)/.dev
	PYTHON=$(abspath $(BIN)/python) sh tests/conformance/setup.sh
	PYTHON=$(abspath $(BIN)/python) sh tests/parity/setup.sh
	$(BIN)/pytest -n $(WAITING) -m "slow or drawn" --hypothesis-profile=full

# what `copydesk doctor` names: openat2, O_TMPFILE, the exchange of names, leases; 2 minutes
WRITING := staging replace contents path_races path_resolution workspace recovery group_recovery \
  foreign_writes faults transactions delete_move large_files flushed doctor

test-lacking: $(VENV)/.test
	set -e; for name in openat2 unnamed exchange leases; do \
	  LACKING=$$name $(BIN)/pytest -n auto -m "not slow" $(WRITING:%=tests/test_%.py); \
	done

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python

$(VENV)/bin/pip:
	sh scripts/venv $(PYTHON) $(VENV)

$(VENV)/.run: $(VENV)/bin/pip requirements/run.txt pyproject.toml
	$(PINNED) requirements/run.txt
	$(OURS)
	touch $@

# what is needed to run is part of what is needed to test
$(VENV)/.test: $(VENV)/bin/pip requirements/test.txt pyproject.toml
	$(PINNED) requirements/test.txt
	$(OURS)
	touch $(VENV)/.run $@

$(VENV)/.dev: $(VENV)/.test requirements/dev.txt
	$(PINNED) requirements/dev.txt
	touch $@

pins: $(VENV)/bin/pip
	$(BIN)/pip install -q uv
	for name in run test dev docs; do \
	  $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --upgrade \
	    --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
	    requirements/$$name.in -o requirements/$$name.txt; \
	done

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --site-dir build/site

$(VENV)/.docs: $(VENV)/.run requirements/docs.txt
	$(PINNED) requirements/docs.txt
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# make soak         agents, people, other programs and faults on a scratch workspace, and an observer;
#                   MINUTES=5 BACKEND=sqlite, redis or both; docs/soak.md
# make sabotage     takes one check after the other out of a copy, and says who finds it: ten minutes
# make kills        a kill at each system call of each kind of write, by strace: five minutes, printed
# make foreign      5,000 writes of real programs beside copydesk's own: a minute and a half, printed
# make bench        the benchmark against peers and limits, at most 25 minutes; bench/RESULTS.md
# make bench-quick  the same with small sizes, 3 minutes; bench/trial/RESULTS.md
# make economy      its last section alone, what an agent pays, half a minute; printed
# make scaling      how far one workspace goes, at most 20 minutes; its section of bench/RESULTS.md
# make scaling-quick  the same with small sizes, a minute; bench/trial/RESULTS.md
.PHONY: soak sabotage kills foreign bench bench-quick economy scaling scaling-quick

MINUTES ?= 1
BACKEND ?=

soak: $(VENV)/.run
	$(BIN)/python -m bench.soak --minutes $(MINUTES) $(if $(BACKEND),--backend $(BACKEND))

sabotage: $(VENV)/.test
	$(BIN)/python -m bench.soak.sabotage

kills: $(VENV)/.run
	$(BIN)/python -m bench.kills

foreign: $(VENV)/.run
	$(BIN)/python -m bench.foreign

bench: $(VENV)/.run
	$(BIN)/python -m bench.run

bench-quick: $(VENV)/.run
	$(BIN)/python -m bench.run --quick

economy: $(VENV)/.run
	$(BIN)/python -m bench.economy

scaling: $(VENV)/.run
	$(BIN)/python -m bench.scaling

scaling-quick: $(VENV)/.run
	$(BIN)/python -m bench.scaling --quick
