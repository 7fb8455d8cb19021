"""`inference.sweep`: one model and one method over temperatures, prior scales or prior families, with the same seeds.

The studies of temperature and of priors in Izmailov et al. (2021, https://arxiv.org/abs/2104.14421) are one call each.
Every value is run with every seed, seed by seed, so that a sweep that is stopped has whole curves. A temperature is an
argument of the compiled programs, so a sweep over temperatures compiles once. A prior is part of the program, so a
sweep over priors or their scales compiles once per value, which all seeds share. Draws are let go once they are scored.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data import Split
from data.pairs import as_pair, is_pair
from inference import mixing
from inference.catalogue import chosen_method
from inference.display.progress import Display
from inference.engine.ledger import Ledger
from inference.host.signals import Signals
from inference.methods import Method
from inference.results.function_space import function_draws, weight_draws
from inference.results.posterior import Posterior
from inference.results.scores import scores
from inference.runs.execution import execute, plan
from inference.runs.resuming import execute_in
from inference.sweeps.result import RHAT, Sweep
from inference.sweeps.variations import Case, as_list, listed, varied
from inference.target.binding import NoStart
from inference.target.density import TEMPERINGS
from models import Network
from models.validation import one_of, positive_integer

__all__ = ["sweep"]

_SAVE_EVERY = 10.0  # seconds, as in `inference.run`
_LEAST_JUDGED = 4  # draws per chain for which R-hat is defined


@dataclass(frozen=True)
class _Asked:
    """What all runs of a sweep share."""

    args: tuple[Any, ...]
    method: Method
    tempering: str
    measure: Callable[[Posterior], Mapping[str, Any]]
    directory: Path | None
    progress: bool

    def posterior(self, case: Case, seed: int) -> Posterior:
        planned = plan(case.model, self.args, self.method, seed, case.temperature, self.tempering, None)
        if self.directory is None:
            return execute(planned, lambda stage: Ledger(), self.progress)
        folder = self.directory / case.folder / f"seed-{seed}"
        return execute_in(folder, planned, self.args, None, self.progress, _SAVE_EVERY, again=True)


class _Run(NamedTuple):
    """What is kept of a run."""

    scores: dict[str, float]
    rhat: float
    unmixed: bool
    divergences: int
    seconds: float
    gradients: int


class _Made(NamedTuple):
    """The finished runs by the places of value and seed, what went wrong, and whether Ctrl-C ended the sweep."""

    runs: dict[tuple[int, int], _Run]
    failures: dict[tuple[str, int], str]
    stopped: bool


def sweep(
    model: Callable[..., Any],
    *args: Any,
    test: Any = None,
    temperature: Any = 1.0,
    prior_scale: Any = None,
    prior: Any = None,
    method: str | Method = "nuts",
    seeds: int | Sequence[int] = 3,
    tempering: str = "posterior",
    score: Callable[[Posterior], Mapping[str, float]] | None = None,
    directory: str | Path | None = None,
    progress: bool = True,
    **options: Any,
) -> Sweep:
    """Score a model over temperatures, prior scales or prior families: `sweep(model, train, test, temperature=[...])`.

    Exactly one of `temperature`, `prior_scale` and `prior` is a list. Scores are those of `diagnostics.scores`, in the
    data's own units if the test data are a `Split`.

    Args:
        model: a network of `models`; any NumPyro model for temperatures, if `score` is given.
        args: training data, then test data: each a `Split` or a pair `(x, y)`. Or what `run` takes, with `test` or
            `score` by name.
        test: the test data, where `args` are the training data alone.
        temperature: a list of temperatures; or a single one, at which priors are compared.
        prior_scale: a list of scales, which the network's `models.Normal` prior takes in turn, with its own `fan_in`.
        prior: a list of priors, or a mapping from names of your own to priors, which the network takes in turn.
        method: a name or a record of options, as in `run`.
        seeds: how many seeds, counted from 0, or a list of them; every value is run with each.
        tempering: what the temperature divides, as in `run`.
        score: a function that gives a posterior's scores by name, in place of those on test data.
        directory: where the runs live, each in a folder of its own: after a crash the same call resumes the sweep, and
            finished runs are read.
        progress: show bars.
        options: the method's options, in place of a record.

    Returns:
        The curves. A run that fails, or whose `score` fails after others have been scored, has nan for its scores, and
        its reason in `Sweep.failures`. After Ctrl-C, the curves of the runs finished by then (`Sweep.partial`).

    Raises:
        TypeError: for an argument of the wrong type.
        ValueError: for a wrong value, in any of the runs; nothing has been compiled by then.
        FloatingPointError: if every run failed.
        KeyboardInterrupt: if Ctrl-C is pressed before the first run is finished.
    """
    if "seed" in options:
        raise ValueError("sweep takes seeds, a number of them or a sequence such as seeds=[0, 1, 2]; leave seed out")
    chosen = chosen_method(method, options).fixed()
    one_of("tempering", tempering, TEMPERINGS)
    name, cases, reference = varied(model, temperature, prior_scale, prior)
    numbers = _numbers(seeds)
    args, test = _data(model, args, test, score)
    keep = chosen.options().get("keep", "all")
    if score is None and keep != "all":
        raise ValueError(f'{chosen.name}: keep must be "all" for the draws to predict, got {keep!r}')
    measure = score or (lambda posterior: scores(posterior.predict(test), test))
    asked = _Asked(args, chosen, tempering, measure, None if directory is None else Path(directory), progress)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the runs will give these warnings
        for case in cases:
            plan(case.model, args, chosen, numbers[0], case.temperature, tempering, None)
    made = _made(name, cases, numbers, asked)
    return _gathered(name, cases, numbers, made, reference)


def _made(name: str, cases: list[Case], seeds: tuple[int, ...], asked: _Asked) -> _Made:
    """Run every value with every seed, seed by seed."""
    runs: dict[tuple[int, int], _Run] = {}
    failures: dict[tuple[str, int], str] = {}
    places = [(i, j) for j in range(len(seeds)) for i in range(len(cases))]
    try:
        display = Display(f"sweep of {name}", len(places), counted="run", enabled=asked.progress)
        with Signals(terminate=False) as signals, display:
            for number, (i, j) in enumerate(places):
                case, seed = cases[i], seeds[j]
                if signals.stop:  # between two runs, where an exception could get lost
                    raise KeyboardInterrupt
                display.update(number, f"{name} {case.label}, seed {seed}")
                try:
                    posterior = asked.posterior(case, seed)
                except (FloatingPointError, NoStart) as error:
                    failures[case.label, seed] = f"failed, {error}"
                    continue
                if posterior.partial:
                    raise KeyboardInterrupt
                if posterior.stopped:
                    lost = [f"chain {chain} is left out, {why}" for chain, why in posterior.stopped.items()]
                    failures[case.label, seed] = "; ".join(lost)
                try:
                    runs[i, j] = _kept(posterior, asked.measure)
                except Exception as error:  # also raised by the user's own function
                    if not runs:  # nothing would be lost
                        raise
                    failures[case.label, seed] = f"its score failed, {type(error).__name__}: {error}"
            display.update(len(places))
    except KeyboardInterrupt:
        if not runs:
            raise
        return _Made(runs, failures, True)
    if not runs:
        (label, seed), why = next(iter(failures.items()))
        raise FloatingPointError(f"all {len(places)} runs failed; {name} {label} with seed {seed} {why}")
    return _Made(runs, failures, False)


def _kept(posterior: Posterior, measure: Callable[[Posterior], Mapping[str, Any]]) -> _Run:
    """Scores of a run, and what is needed to judge it."""
    found = measure(posterior)
    if not isinstance(found, Mapping) or not found:
        raise TypeError(f"score must return a dict from names to numbers, got {type(found).__name__} {found!r}")
    try:
        numbers = {str(key): float(value) for key, value in found.items()}
    except (TypeError, ValueError) as error:
        raise TypeError(f"score must return a dict from names to numbers, got {found!r}") from error
    divergences = int(posterior.statistics["diverging"].sum()) if "diverging" in posterior.statistics else 0
    return _Run(numbers, *_mixed(posterior), divergences, posterior.cost.seconds, posterior.cost.gradients)


def _mixed(posterior: Posterior) -> tuple[float, bool]:
    """The worst R-hat of chains, nan for other draws, and whether the chains disagree or are too short to tell.

    A network is judged by its functions, any other model by its sites.
    """
    if posterior.kind != "chains":
        return np.nan, False
    if posterior.shape[1] < _LEAST_JUDGED:
        return np.inf, True
    draws = function_draws(posterior) if isinstance(posterior.model, Network) else weight_draws(posterior)
    draws = draws if draws.shape[2] else posterior.statistics["lp"][..., None]
    few = mixing.ess(draws).min() < mixing.LEAST_ESS
    return mixing.worst_rhat(draws), bool(few or mixing.apart(draws, RHAT).any())


def _gathered(name: str, cases: list[Case], seeds: tuple[int, ...], made: _Made, reference: int | None) -> Sweep:
    """The finished runs as a `Sweep`, whose arrays have a row per value and a column per seed."""

    def array(value: Callable[[_Run], Any], missing: Any) -> np.ndarray:
        places = ([made.runs.get((i, j)) for j in range(len(seeds))] for i in range(len(cases)))
        return np.array([[missing if run is None else value(run) for run in row] for row in places])

    names = list(dict.fromkeys(key for run in made.runs.values() for key in run.scores))
    return Sweep(
        name=name,
        values=tuple(case.value for case in cases),
        labels=tuple(case.label for case in cases),
        seeds=seeds,
        scores={key: array(partial(_score, key), np.nan) for key in names},
        rhat=array(lambda run: run.rhat, np.nan),
        unmixed=array(lambda run: run.unmixed, False),
        divergences=array(lambda run: run.divergences, 0),
        seconds=array(lambda run: run.seconds, np.nan),
        gradients=array(lambda run: run.gradients, 0),
        failures=made.failures,
        reference=reference,
        partial=made.stopped,
    )


def _score(key: str, run: _Run) -> float:
    return run.scores.get(key, np.nan)


def _numbers(seeds: Any) -> tuple[int, ...]:
    """The seeds as integers, from a number of seeds or a sequence of them."""
    if isinstance(seeds, int | np.integer) and not isinstance(seeds, bool):
        positive_integer("seeds", seeds)
        return tuple(range(int(seeds)))
    if not listed("seeds", seeds) or not len(seeds):
        raise TypeError(f"seeds must be a number of seeds, or a sequence of different ones, got {seeds!r}")
    seeds = as_list(seeds)
    for seed in seeds:
        positive_integer("seeds: a seed", seed, least=0)
        if seed >= 2**32:
            raise ValueError(f"seeds: a seed must be below 2^32, got {seed!r}")
    numbers = tuple(int(seed) for seed in seeds)
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"seeds must differ, so that runs are independent, got {list(numbers)}")
    return numbers


def _data(model: Any, args: tuple[Any, ...], test: Any, score: Any) -> tuple[tuple[Any, ...], Any]:
    """The arguments of each run, and the test data, both checked."""
    network = isinstance(model, Network)
    if network and test is None and len(args) in (2, 3) and is_pair(args[-1]) and (len(args) == 3 or is_pair(args[0])):
        *first, test = args
        args = tuple(first)
    if score is not None:
        if not callable(score):
            raise TypeError(f"score must be a function of a posterior, got {type(score).__name__}")
        if test is not None:
            raise ValueError("score is given the posterior alone, and brings its own test data; leave test out")
        return args, None
    if not network:
        raise TypeError(
            f"scores on test data need a network of models, got {type(model).__name__}; for a model of your own give "
            "score, a function that takes a posterior and returns its scores by name"
        )
    if not is_pair(test):
        raise ValueError(
            "sweep needs test data to score on: sweep(model, train, test, ...), each a Split or a pair (x, y), or "
            "sweep(model, x, y, test=...)"
        )
    x, y = as_pair("sweep", test)
    train = args[0] if len(args) == 2 else next(iter(args[0])) if args and is_pair(args[0]) else None
    if train is not None and np.shape(train)[1:] != np.shape(x)[1:]:
        raise ValueError(f"test rows must be like the training rows, {np.shape(train)[1:]}, got {np.shape(x)[1:]}")
    model.validate(x, y)
    if isinstance(test, Split) and (test.classes is None) != (model.likelihood.classes is None):
        raise ValueError(f"'{test.name}' {'has labels' if test.classes else 'has none'}, unlike {model.likelihood}")
    return args, test
