# Every chore of the project. Needs Python >= 3.11, pip and make; everything else goes into $(VENV).
#   PYTHON  the interpreter that makes the environment   make test PYTHON=python3.13 VENV=.venv313
#   TESTS   which tests, by their marks                   make test TESTS="not slow"
#   PATHS   which tests, by their place                   make test PATHS=tests/kernels
#   JOBS    processes that share the tests                make test JOBS=1
#   FAST    any value: pages without pictures, short benchmarks   make docs FAST=1

PYTHON ?= python3
VENV ?= .venv
MIN_VENV ?= .venv-min
WHEEL_VENV ?= .venv-wheel
JOBS ?= auto
TESTS ?= not slow and not heavy
BIN := $(VENV)/bin
BENCHMARKS = $(wildcard benchmarks/[!_]*.py)
PYTEST = -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal -m "$(TESTS)"
# Modules are compiled where they are first imported, once for all processes, and not all 10 000 of them beforehand.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-compile
PIP_FAILED = || { echo "pip could not install bayesmkl. Where it says '(from versions: none)', it reaches no package index: \
is there a network, or a proxy that HTTPS_PROXY should name?" >&2; exit 1; }
export PYTHONDONTWRITEBYTECODE =
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test full coverage lint types layers docs notebooks pages-check bench peers mutants test-min test-wheel audit dist \
    release-check clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.base  ## fit real data, print what it found, write a report to demo/
	$(BIN)/bayesmkl demo --out demo/

test: $(VENV)/.test  ## the quick tests and the examples of docstrings
	OPENBLAS_NUM_THREADS=1 $(BIN)/python $(PYTEST) $(PATHS)

full:  ## everything: all tests, pages with notebooks, other Pythons, lowest versions, short benchmarks (half an hour)
	.ci/full

coverage: $(VENV)/.test  ## the quick tests, and which lines and branches they run
	OPENBLAS_NUM_THREADS=1 $(BIN)/python $(PYTEST) --cov --cov-report=term $(PATHS)

lint: $(VENV)/.test  ## formatting and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.test  ## static types
	$(BIN)/mypy

layers: $(VENV)/.test  ## who may import whom
	$(BIN)/lint-imports

docs: $(VENV)/.docs  ## the pages, every warning an error; FAST=1 without the gallery and the pictures, which are run
	OPENBLAS_NUM_THREADS=1 $(if $(FAST),BAYESMKL_FAST=1) $(BIN)/python -m sphinx -W -n --keep-going -q -j auto -b html docs docs/_build/html
	@echo "documentation: docs/_build/html/index.html"

notebooks: $(VENV)/.docs  ## run every notebook anew, and keep what it prints and draws
	OPENBLAS_NUM_THREADS=1 $(BIN)/python notebooks/run.py

pages-check: $(VENV)/.test $(VENV)/axe/.installed  ## the built pages in Chromium: overflow, contrast, console, the rules of axe-core
	$(BIN)/python tests/robustness/pages_in_browser.py --axe $(VENV)/axe/node_modules/axe-core/axe.min.js

bench: $(VENV)/.bench  ## every benchmark; FAST=1 for the short form, two at a time
ifdef FAST
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/_short_forms.py $(BENCHMARKS)
else
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script; done
endif

# One environment for each peer: they want other versions of what this package builds on. TORCH names a build.
TORCH ?= torch
PEERS = himalaya mklpy gpytorch skglm
PEER_himalaya = himalaya packaging
PEER_mklpy = MKLpy '$(TORCH)'
PEER_gpytorch = gpytorch '$(TORCH)'
PEER_skglm = skglm
peers: $(PEERS:%=build/peers/%/.installed)  ## environments of the packages that benchmarks/peers.py compares with

build/peers/%/.installed:
	$(PYTHON) -m venv build/peers/$*
	build/peers/$*/bin/python -m pip install -qq --no-compile scikit-learn $(PEER_$*)
	@touch $@

MUTATE ?=
mutants: $(VENV)/.mutants  ## do the tests notice changes of the numerical core? MUTATE names modules (an hour and more for all)
	$(BIN)/python tests/robustness/mutants.py $(MUTATE)

# Old releases warn of what newer ones that they build on, and that only they ask for, will drop.
test-min: $(MIN_VENV)/.test  ## the quick tests with the lowest versions of everything that pyproject.toml declares
	OPENBLAS_NUM_THREADS=1 $(MIN_VENV)/bin/python $(PYTEST) -W ignore::DeprecationWarning $(PATHS)

# Nothing of the working tree takes part: package and tests come out of the two archives.
test-wheel: $(WHEEL_VENV)/.installed  ## the quick tests of the source archive against the installed wheel
	cd build/wheel && OPENBLAS_NUM_THREADS=1 $(abspath $(WHEEL_VENV))/bin/python $(PYTEST) --rootdir . -c pyproject.toml $(or $(PATHS),tests) \
	    $$(cd / && $(abspath $(WHEEL_VENV))/bin/python -c 'import bayesmkl, pathlib; print(pathlib.Path(bayesmkl.__file__).parent)')

# pip-audit lives apart. Where it reaches no database it finds nothing and ends well: the table says what was looked up.
audit: $(VENV)/.test $(VENV)/audit/.installed  ## dependencies: versions, licenses, known vulnerabilities
	$(BIN)/python -m pip check
	rm -f $(VENV)/audit/found.json
	-$(VENV)/audit/bin/pip-audit --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	    --skip-editable --progress-spinner off --format json --output $(VENV)/audit/found.json 2>&1 | tail -n 1
	$(BIN)/python tests/robustness/dependencies.py audit $(VENV)/audit/found.json

dist: dist/.built  ## wheel and source archive

release-check: $(VENV)/release/.checking  ## build, check and try a release in empty environments, with times; PYTHONS="..."
	$(BIN)/python tests/robustness/release.py --tools $(VENV)/release/bin/python --python $(or $(PYTHONS),$(PYTHON))

clean:  ## remove the environments and everything that was built
	rm -rf $(VENV) $(MIN_VENV) $(WHEEL_VENV) build dist demo docs/_build docs/api/generated docs/gallery \
	    .coverage .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find bayesmkl tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment, several extras. A stamp says which are installed; pyproject.toml names them, __init__.py the version.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "bayesmkl needs Python 3.11 or later; '$(PYTHON)' is not that. Try: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.base: $(VENV)/.created pyproject.toml bayesmkl/__init__.py
	@$(PIP_INSTALL) -e . $(PIP_FAILED)
	@touch $@

$(VENV)/.test $(VENV)/.docs $(VENV)/.bench $(VENV)/.mutants: $(VENV)/.%: $(VENV)/.created pyproject.toml bayesmkl/__init__.py
	@$(PIP_INSTALL) -e '.[test,$*]' $(PIP_FAILED)
	@touch $@

$(VENV)/.gate: $(VENV)/.created pyproject.toml bayesmkl/__init__.py
	@$(PIP_INSTALL) -e '.[test,docs]' $(PIP_FAILED)
	@touch $(VENV)/.base $(VENV)/.test $(VENV)/.docs $@

$(VENV)/audit/.installed: $(VENV)/.created
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install -qq pip-audit
	@touch $@

$(VENV)/axe/.installed: $(VENV)/.created
	npm install --silent --no-audit --no-fund --prefix $(VENV)/axe axe-core@4
	@touch $@

$(MIN_VENV)/.test: pyproject.toml tests/robustness/dependencies.py
	$(PYTHON) -m venv $(MIN_VENV)
	$(MIN_VENV)/bin/python -m pip install -qq packaging
	$(MIN_VENV)/bin/python tests/robustness/dependencies.py lowest >$(MIN_VENV)/lowest.txt
	$(MIN_VENV)/bin/python -m pip install -qq -c $(MIN_VENV)/lowest.txt -e '.[test]'
	@touch $@

# What makes archives needs nothing of the package, and lives apart.
$(VENV)/release/.installed $(VENV)/release/.checking: $(VENV)/.created pyproject.toml
	$(PYTHON) -m venv --without-pip $(VENV)/release
	$(BIN)/python -m pip --python $(VENV)/release/bin/python install -qq --no-compile $$($(BIN)/python -c 'import tomllib; \
	    extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
	    print(*extras["release"], *(extras["release-check"] if "$(@F)" == ".checking" else []))')
	@touch $@

dist/.built: $(VENV)/release/.installed $(shell find bayesmkl -name "*.py") README.md LICENSE pyproject.toml
	rm -rf dist
	$(VENV)/release/bin/python -m build --quiet --no-isolation
	@touch $@

$(WHEEL_VENV)/.installed: dist/.built
	rm -rf $(WHEEL_VENV) build/wheel
	mkdir -p build/wheel
	tar -xzf dist/bayesmkl-*.tar.gz -C build/wheel --strip-components=1
	rm -rf build/wheel/bayesmkl
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install -qq --no-compile "$$(ls dist/*.whl)[test]"
	@touch $@
