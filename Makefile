# Two commands for a new user: `make demo` and `make test`. Each sets itself up.
# They need Python 3.11, 3.12 or 3.13 with venv: the newest one that PATH has, or that of `make PYTHON=python3.12 ...`.

RUNS = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
TESTED := 3.13 3.12 3.11

ifndef PYTHON
PYTHON := $(firstword $(foreach name,$(TESTED:%=python%) python3,$(if $(filter $(TESTED),$(call RUNS,$(name))),$(name))))
endif
VERSION := $(call RUNS,$(PYTHON))
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready-$(VERSION)
LOCK := $(if $(filter 3.11,$(VERSION)),requirements.lock,requirements-3.12.lock)

.PHONY: demo quick test slow newer validate notebooks references newest check format bench reproduce clean

demo: $(READY)
	$(BIN)/python -m experiments.demo --report report.html

# Unit tests alone: after every edit, in less than a minute.
quick: $(READY)
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n 2 tests/unit

# Most of the time of the tests is XLA's compiler, so where programs run for a moment they are not optimised. A file is
# one worker's, which shares its fixtures and its programs.
UNOPTIMISED := XLA_FLAGS="--xla_backend_optimization_level=0" $(BIN)/python -m pytest -n 2 --dist loadfile
LONG_PROGRAMS := tests/accuracy/mcmc/test_references.py tests/accuracy/mcmc/test_hmc.py

test: check
	$(UNOPTIMISED) tests/unit tests/runs tests/survival tests/accuracy tests/examples $(LONG_PROGRAMS:%=--ignore=%)
	$(BIN)/python -m pytest -n 2 --dist loadfile $(LONG_PROGRAMS)

# The tests that take longest, which `make test` leaves out and CI does not: see tests/slow.txt.
slow: $(READY)
	$(UNOPTIMISED) -m slow tests

# What a second version of Python and JAX must pass beside the first: the part of `make test` that meets them most.
newer: $(READY)
	$(UNOPTIMISED) -m "not validation" tests/unit tests/runs/test_contract.py tests/runs/reports tests/runs/target/test_minibatches.py \
		tests/accuracy/test_methods.py tests/survival

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Long validations: large data, long trajectories, what one sample is too small to show.
validate: $(READY)
	$(BIN)/python -m pytest -m validation -s

# Runs every notebook anew and stores what it shows; `make notebooks NAMES="01 04"` runs those.
notebooks: $(READY)
	$(BIN)/python -m notebooks.execute $(NAMES)

# The moments that samplers are tested against, by an independent sampler.
references: $(READY)
	$(BIN)/python -W ignore tests/references/make.py

# What breaks with the newest releases: those that pyproject.toml allows, and those beyond.
newest:
	.ci/newest $(PYTHON)

bench: $(READY)
	for name in importing starting hamiltonian compensation arithmetic ensembles variational dropout langevin rows networks chains devices scaling saving showing quality scales lengths verdict tabular; do \
		echo "== $$name"; $(BIN)/python -W ignore -m benchmarks.$$name || exit 1; done

# What the papers found: every study at its full size, written into docs/findings.md. `touchstone reproduce` lists them
# and how long each takes. Runs that are dear are kept in KEPT, so that a second time takes less.
KEPT ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/touchstone/studies
reproduce: $(READY)
	@failed=""; for name in $$($(BIN)/touchstone reproduce | cut -d " " -f 1); do \
		echo "== $$name"; \
		$(BIN)/touchstone reproduce $$name --findings docs/findings.md --runs $(KEPT) || failed="$$failed $$name"; \
	done; if [ -n "$$failed" ]; then echo "not reproduced:$$failed"; exit 1; fi

# The environment is made anew when what it should hold, or the version of Python, has changed.
$(READY): requirements.lock requirements-3.12.lock pyproject.toml
	@case " $(TESTED) " in \
	*" $(or $(VERSION),none) "*) echo "Python $(VERSION) ($(PYTHON)), packages of $(LOCK)" ;; \
	*) echo "Touchstone is tested with Python 3.11, 3.12 and 3.13. PYTHON is '$(PYTHON)', which is $(or $(VERSION),no Python that runs). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1 ;; \
	esac
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --requirement $(LOCK)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)

clean:
	rm -rf .venv* report.html .mypy_cache .ruff_cache .pytest_cache
