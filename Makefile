# Two commands for a new user: `make demo` and `make test`. Each sets itself up.
# Python 3.11 or newer with venv is all they need; choose another one with `make PYTHON=python3.12 ...`.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo quick test validate references check format bench reproduce clean

demo: $(READY)
	$(BIN)/python -m experiments.demo --report report.html

# Unit tests alone: after every edit, in less than a minute.
quick: $(READY)
	$(BIN)/ruff check .
	$(BIN)/python -m pytest -n 2 tests/unit

# Most of the time of the tests is XLA's compiler, so where programs run for a moment they are not optimised. A file is
# one worker's, which shares its fixtures and its programs.
LONG_PROGRAMS := tests/accuracy/mcmc/test_references.py tests/accuracy/mcmc/test_hmc.py

test: check
	XLA_FLAGS="--xla_backend_optimization_level=0" $(BIN)/python -m pytest -n 2 --dist loadfile \
		tests/unit tests/runs tests/survival tests/accuracy $(LONG_PROGRAMS:%=--ignore=%)
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/examples $(LONG_PROGRAMS)

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

# The moments that samplers are tested against, by an independent sampler.
references: $(READY)
	$(BIN)/python -W ignore tests/references/make.py

bench: $(READY)
	for name in importing starting hamiltonian compensation ensembles variational dropout langevin rows networks saving quality; do \
		echo "== $$name"; $(BIN)/python -W ignore -m benchmarks.$$name || exit 1; done

# Published tables beside ours; what data they need is in the README.
reproduce: $(READY)
	for name in boston concrete yacht naval; do $(BIN)/python -m experiments.dropout_uci --data $$name || exit 1; done
	$(BIN)/python -m experiments.backprop_mnist
	$(BIN)/python -m experiments.cold_posteriors
	$(BIN)/python -m experiments.priors
	$(BIN)/python -m experiments.uncertainties

# The environment is made anew when what it should hold has changed.
$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Touchstone needs Python 3.11 or newer; '$(PYTHON)' is not. Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --no-build-isolation --editable .
	@touch $(READY)

clean:
	rm -rf .venv report.html .mypy_cache .ruff_cache .pytest_cache
