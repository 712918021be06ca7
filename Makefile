# `make demo` and `make test` do all the set-up on a fresh machine with Python 3.11+.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= auto

.PHONY: help setup demo serve test lint fix bench bench-peers studies docs dist clean
help:
	@echo "make demo   set up, fit the bundled chat log, say which model to ship, and write report.html"
	@echo "make serve  the same, and open it live: explore, vote, and an OpenAI-compatible gateway"
	@echo "make test   set up and pass the whole suite"
	@echo "make lint   style, types and import order        make fix    mend the style"
	@echo "make bench  print the table of benchmarks        make docs   build the site of docs/ in build/site"
	@echo "make bench-peers   install arena-rank and pref_voting, each apart, for make bench"
	@echo "make studies   the small version of every table and figure of the paper"
	@echo "make dist   build wheel and source archive in dist/, and try the wheel in an empty environment"
	@echo "make clean  remove what make made"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "nasheval needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[text,serve,dev]'
	$(BIN)/python -m nasheval.policy.warming  # compiles the solvers once
	@touch $(READY)

demo: setup
	@mkdir -p build
	$(BIN)/nasheval fit chat --holdout 0 -o build/demo --overwrite --keep-text --report report.html

serve: setup
	@test -f build/demo/manifest.json || $(BIN)/nasheval fit chat --holdout 0 -o build/demo --overwrite --keep-text
	$(BIN)/python -m nasheval.serving.live_demo build/demo --store build/serve/votes.db

test: setup
	$(BIN)/python -m pytest -n $(WORKERS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m studies bench --fresh

# arena-rank and pref_voting pin old versions of what we use: folders of their own, which `make bench` finds
bench-peers: setup
	$(PYTHON) -m venv build/arena-rank
	build/arena-rank/bin/python -m pip install --quiet --disable-pip-version-check arena-rank
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps --target build/pref_voting \
	    pref_voting tabulate random2 ortools highspy==1.12.0

studies: setup
	$(BIN)/python -m studies all --quick --fresh --out build/results

docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/mkdocs build --strict

dist: setup
	PYTHON=$(BIN)/python .ci/release

clean:
	rm -rf .venv build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
