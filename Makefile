# Every chore of the project. Needs Python >= 3.11, pip and make; everything else goes into $(VENV).
#   PYTHON   the interpreter that makes the environment    make test PYTHON=python3.12 VENV=.venv312
#   FAST     any value: short benchmarks and notebooks      make bench FAST=1
#   JOBS     processes that share the tests                make test JOBS=1
#   TESTS    which of them, by their marks                  make test TESTS="not slow"
#   PATHS    which of them, by their place                  make test PATHS=tests/kernels
#   WHEEL_TESTS which of them, for the wheel               make test-wheel WHEEL_TESTS=tests/evaluation
#   WHEEL_VENV environment of the installed wheel          make test-wheel PYTHON=python3.12
#   PYTHONS  which try the wheel of a release              make release-check PYTHONS="python3.11 python3.12"
#   MIN_VENV environment of the lowest declared versions    make test-min MIN_VENV=.venv-min PYTHON=python3.11
#   TORCH    which build of PyTorch peers use            make peers TORCH=torch
#   MUTATE   modules whose tests are tested                make mutants MUTATE=bayesmkl/bemkl/models/binary.py

PYTHON ?= python3
VENV ?= .venv
MIN_VENV ?= .venv-min
WHEEL_VENV ?= .venv-wheel
WHEEL_TESTS ?= tests
JOBS ?= auto
BIN := $(VENV)/bin
PEERS = himalaya mklpy gpytorch skglm
TORCH ?= torch
PEER_himalaya = himalaya packaging
PEER_mklpy = MKLpy '$(TORCH)'
PEER_gpytorch = gpytorch '$(TORCH)'
PEER_skglm = skglm
SOURCES = $(shell find bayesmkl -name "*.py") bayesmkl/py.typed README.md LICENSE pyproject.toml
BENCHMARKS = $(wildcard benchmarks/[!_]*.py)
PYTEST = -m pytest -n $(JOBS) --maxprocesses 8 --dist worksteal
MARKED = $(if $(TESTS),-m "$(TESTS)")
# Modules are compiled where they are first imported, once for all processes, and not all 10 000 of them beforehand.
PIP_INSTALL := $(BIN)/python -m pip install -qq --no-compile
PIP_FAILED = || { echo "pip could not install bayesmkl. Where it says '(from versions: none)', it reaches no package index: \
is there a network, or a proxy that HTTPS_PROXY should name?" >&2; exit 1; }
export PYTHONDONTWRITEBYTECODE =
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-heavy coverage slow robustness newcomer mutants test-min audit lint types layers docs pages-check notebooks \
    bench peers track dist test-wheel release-check changelog clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.base  ## fit real data, print what it found, write a report to demo/
	$(BIN)/bayesmkl demo --out demo/

test: $(VENV)/.test  ## unit tests and docstring examples
	OPENBLAS_NUM_THREADS=1 $(BIN)/python $(PYTEST) -m "$(or $(TESTS),not slow and not heavy)" $(PATHS)

test-heavy: $(VENV)/.test  ## the tests that compile, sample or run for long, and all cases of bad input
	OPENBLAS_NUM_THREADS=1 $(BIN)/python $(PYTEST) -m "heavy and not slow" $(PATHS)

coverage: $(VENV)/.test  ## both, and which lines and branches they run: half as long again
	OPENBLAS_NUM_THREADS=1 $(BIN)/python $(PYTEST) $(MARKED) --cov --cov-report=term

slow: $(VENV)/.test  ## the longer studies that `make test` leaves out
	$(BIN)/python -m pytest -m slow

robustness: $(VENV)/.test  ## bad input, faults, stress: the cases tried and failed, by family
	OPENBLAS_NUM_THREADS=1 $(BIN)/python $(PYTEST) -q tests/robustness

newcomer:  ## a fresh clone, the README's commands and code, every guide's code, with times; PYTHON=python3.12 for another
	$(PYTHON) tests/robustness/newcomer.py --python $(PYTHON)

mutants: $(VENV)/.mutants  ## do the tests notice changes of the numerical core? (an hour and more)
	$(BIN)/python tests/robustness/mutants.py $(MUTATE)

# Old releases warn of what newer ones that they build on, and that only they ask for, will drop.
test-min: $(MIN_VENV)/.test  ## the tests with the lowest versions of everything that pyproject.toml declares
	OPENBLAS_NUM_THREADS=1 $(MIN_VENV)/bin/python $(PYTEST) $(MARKED) -W ignore::DeprecationWarning

# pip-audit lives apart. Where it reaches no database it finds nothing and ends well: the table says what was looked up.
audit: $(VENV)/.test $(VENV)/audit/.installed  ## dependencies: versions, licenses, known vulnerabilities
	$(BIN)/python -m pip check
	rm -f $(VENV)/audit/found.json
	-$(VENV)/audit/bin/pip-audit --path $$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	    --skip-editable --progress-spinner off --format json --output $(VENV)/audit/found.json 2>&1 | tail -n 1
	$(BIN)/python tests/robustness/dependencies.py audit $(VENV)/audit/found.json

lint: $(VENV)/.test  ## formatting and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.test  ## static types
	$(BIN)/mypy

layers: $(VENV)/.test  ## who may import whom
	$(BIN)/lint-imports

docs: $(VENV)/.docs  ## the documentation with notebooks and gallery, every warning an error; FAST=1 for short notebooks
	OPENBLAS_NUM_THREADS=1 $(if $(FAST),BAYESMKL_FAST=1) \
	    $(BIN)/python -m sphinx -W -n --keep-going -q -j auto -b html docs docs/_build/html
	@echo "documentation: docs/_build/html/index.html"

pages-check: $(VENV)/.test $(VENV)/axe/.installed  ## the built pages in Chromium: overflow, contrast, console, the rules of axe-core
	$(BIN)/python tests/robustness/pages_in_browser.py --axe $(VENV)/axe/node_modules/axe-core/axe.min.js

notebooks: $(VENV)/.test  ## bring the two forms of every notebook up to date with each other: the newer one wins
	cd notebooks && $(abspath $(BIN))/python -m jupytext --quiet --sync *.md


# The short form does without packages that are only there to be compared with.
bench: $(VENV)/$(if $(FAST),.test,.bench)  ## every benchmark; FAST=1 for the short form, two at a time
ifdef FAST
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/_short_forms.py $(BENCHMARKS)
else
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script; done
endif

# One environment for each peer: they want other versions of what this package builds on. TORCH names a build.
peers: $(PEERS:%=build/peers/%/.installed)  ## environments of the packages that benchmarks/peers.py compares with

build/peers/%/.installed:
	$(PYTHON) -m venv build/peers/$*
	build/peers/$*/bin/python -m pip install -qq --no-compile scikit-learn $(PEER_$*)
	@touch $@

track: $(VENV)/.bench  ## time a few small things, keep the times by commit, compare them with the last ones
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest benchmarks/tracked/track_fits.py -q --benchmark-autosave \
	    --benchmark-group-by=name --benchmark-columns=min,median,rounds $(if $(wildcard .benchmarks/*/*),--benchmark-compare)

dist: dist/.built  ## wheel and source archive

dist/.built: $(VENV)/release/.installed $(SOURCES)
	rm -rf dist
	$(VENV)/release/bin/python -m build --quiet --no-isolation
	@touch $@

# Nothing of the working tree takes part: package and tests come out of the two archives.
test-wheel: $(WHEEL_VENV)/.installed  ## the tests of the source archive against the installed wheel
	cd build/wheel && OPENBLAS_NUM_THREADS=1 $(abspath $(WHEEL_VENV))/bin/python $(PYTEST) $(MARKED) \
	    --rootdir . -c pyproject.toml $(WHEEL_TESTS) \
	    $$(cd / && $(abspath $(WHEEL_VENV))/bin/python -c 'import bayesmkl, pathlib; print(pathlib.Path(bayesmkl.__file__).parent)')

release-check: $(VENV)/release/.checking  ## build, check and try a release in empty environments, with times; PYTHONS="..."
	$(BIN)/python tests/robustness/release.py --tools $(VENV)/release/bin/python --python $(or $(PYTHONS),$(PYTHON))

changelog: $(VENV)/release/.installed  ## move what changelog.d/ says into CHANGELOG.md, under the version of the package
	$(VENV)/release/bin/python -m towncrier build --yes --version $$($(VENV)/release/bin/python -m hatchling version)

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) $(MIN_VENV) $(WHEEL_VENV) build dist demo docs/_build docs/api/generated docs/gallery docs/notebooks \
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

$(VENV)/.test: $(VENV)/.created pyproject.toml bayesmkl/__init__.py
	@$(PIP_INSTALL) -e '.[test]' $(PIP_FAILED)
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(PIP_INSTALL) -e '.[bench]'
	@touch $@

$(VENV)/.mutants: $(VENV)/.test
	$(PIP_INSTALL) -e '.[mutants]'
	@touch $@

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
$(VENV)/release/.installed: $(VENV)/.created pyproject.toml
	$(PYTHON) -m venv --without-pip $(VENV)/release
	$(BIN)/python -m pip --python $(VENV)/release/bin/python install -qq --no-compile $$($(BIN)/python -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["release"])')
	@touch $@

$(VENV)/release/.checking: $(VENV)/release/.installed
	$(BIN)/python -m pip --python $(VENV)/release/bin/python install -qq --no-compile $$($(BIN)/python -c 'import tomllib; \
	    print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["release-check"])')
	@touch $@

$(WHEEL_VENV)/.installed: dist/.built
	rm -rf $(WHEEL_VENV) build/wheel
	mkdir -p build/wheel
	tar -xzf dist/bayesmkl-*.tar.gz -C build/wheel --strip-components=1
	rm -rf build/wheel/bayesmkl
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install -qq --no-compile "$$(ls dist/*.whl)[test]"
	@touch $@

$(VENV)/.docs: $(VENV)/.created pyproject.toml bayesmkl/__init__.py
	@$(PIP_INSTALL) -e '.[docs]' $(PIP_FAILED)
	@touch $@

$(VENV)/.gate: $(VENV)/.created pyproject.toml bayesmkl/__init__.py
	@$(PIP_INSTALL) -e '.[test,docs]' $(PIP_FAILED)
	@touch $(VENV)/.base $(VENV)/.test $(VENV)/.docs $@
