"""A run, from a plan to a posterior: starts, pilot, chains, all run by one driver and each with a ledger of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import jax
import numpy as np

from data import Origin, Split
from data.pairs import inputs_of
from inference.engine.arrangements import arrange, for_hosts
from inference.engine.driver import drive
from inference.engine.kept_draws import FUNCTIONS, Keeping
from inference.engine.ledger import Ledger, Saved, Values
from inference.engine.stage import Stage
from inference.host.arviz import load_statistics
from inference.host.compiling import enable_compilation_cache, tracing
from inference.host.machine import Cost
from inference.host.seeds import Stream, as_key
from inference.host.telling import tell
from inference.methods import Method
from inference.optimisation.optimiser import Optimisation
from inference.results.function_space import probes
from inference.results.posterior import Posterior
from inference.results.running_averages import Average, Averages
from inference.runs.given_starts import same_members, sites_of
from inference.runs.piloting import Piloted, find_settings, pilot_chains
from inference.runs.side_by_side import best, fit_together, restarts
from inference.runs.starts import Starts, find_starts, fits, start_of
from inference.runs.stopping import stop_of
from inference.samplers import Sampler
from inference.target.binding import Bound, bind
from inference.target.density import TEMPERINGS, Data
from models import Network
from models.validation import one_of, positive_number

__all__ = ["Begun", "Further", "Plan", "check_until", "draw", "execute", "failed_restarts", "plan"]


@dataclass(frozen=True, eq=False)
class Plan:
    """All that a run depends on.

    Attributes:
        model: the model whose posterior is inferred.
        bound: the model with its data.
        method: the method to run.
        seed: an integer, or the words of a key.
        temperature: the temperature T.
        tempering: what the temperature divides.
        keeping: what is kept of the draws.
        settings: the kernel's settings for all chains; for the pilot, if there is one.
        notes: what a user should know before the run begins.
        given: the values of sites from which the chains are to start, (chain, *site); None finds starts.
        origin: where the data came from; None if that is not known.
    """

    model: Callable[..., Any]
    bound: Bound
    method: Method
    seed: int | tuple[int, ...]
    temperature: float
    tempering: str
    keeping: Keeping
    settings: Any
    notes: tuple[str, ...] = ()
    given: dict[str, np.ndarray] | None = None
    origin: Origin | None = None

    @property
    def key(self) -> jax.Array:
        """The key of the run."""
        return as_key(self.seed)

    def posterior(
        self, draws: Values, scalars: Values, curves: Values, averages: list[Average], **how: Any
    ) -> Posterior:
        """The record of what was drawn; `how` are further fields of `Posterior`, such as cost, start and ended."""
        statistics = {name: values for name, values in scalars.items() if name != FUNCTIONS}
        likelihood: Any = getattr(self.model, "likelihood", None)
        return Posterior(
            model=self.model,
            method=self.method,
            seed=self.seed,
            temperature=self.temperature,
            tempering=self.tempering,
            draws=draws,
            statistics=statistics,
            curves=curves,
            observed=self.bound.observed,
            probes=self.keeping.probes,
            deterministic=self.bound.deterministic,
            functions=scalars.get(FUNCTIONS),
            averages=Averages(reduce(Average.joined, averages), likelihood.classes) if averages else None,
            origin=self.origin,
            **{"notes": self.notes, **how},
        )


class Begun(NamedTuple):
    """How the chains of a run begin.

    Attributes:
        piloted: their settings and positions.
        start: how they started, in the words of `Posterior.start`.
        cost: what all that was before them took.
    """

    piloted: Piloted
    start: str
    cost: Cost


class Further(NamedTuple):
    """Where the chains of a run in memory are.

    Attributes:
        plan: the run's plan.
        begun: how its chains began.
        ledger: what they have emitted.
        saved: each chain.
        cost: what the chains took.
    """

    plan: Plan
    begun: Begun
    ledger: Ledger
    saved: list[Saved]
    cost: Cost


def plan(
    model: Callable[..., Any],
    args: tuple[Any, ...],
    method: Method,
    seed: int | tuple[int, ...],
    temperature: float,
    tempering: str,
    predict_at: Any,
    start: Any = None,
) -> Plan:
    """Bind a model to its arguments and check what can be checked before anything compiles."""
    positive_number("temperature", temperature)
    one_of("tempering", tempering, TEMPERINGS)
    with tracing(method.precision):
        bound = bind(model, args, float(temperature), tempering, method.chunk_size)
        method = for_hosts(method.suited(bound.target, bound.data))
        if own := method.identity(bound.target, bound.data):
            bound = bound._replace(target=replace(bound.target, identity=bound.target.identity + own))
        keeping = _keeping(model, method, bound.data, predict_at)
        if isinstance(model, Network) and "last_layer" in (method.options().get("structure"), keeping.keep):
            model.last_layer(bound.data.arrays[0])  # which a lifted network has not
        notes = bound.notes + method.notes(bound.target, bound.data)
        settings = method.settings(bound.target, bound.data)
        every = max(method.chains, fits(method))
        given = None if start is None else sites_of(start, bound.target, bound.data, every)
        if given is not None:
            notes += same_members(method, given, bound.target.position(bound.data))
        origin = args[0].origin if len(args) == 1 and isinstance(args[0], Split) else None
        return Plan(model, bound, method, seed, float(temperature), tempering, keeping, settings, notes, given, origin)


def execute(plan: Plan, ledger: Callable[[str], Ledger], progress: bool) -> Posterior:
    """Run a plan; `ledger` gives each stage's ledger by the stage's name, which may hold part of the stage already."""
    method, bound = plan.method, plan.bound
    for note in plan.notes:
        tell(note)
    enable_compilation_cache()
    compiling = _compile_ahead(plan)
    starts = find_starts(
        method,
        bound.target,
        bound.data,
        jax.random.fold_in(plan.key, Stream.STARTS),
        progress,
        ledger,
        plan.given,
        pilot_chains(method, plan.settings),
    )
    if compiling:
        if getattr(method, "until", None):
            load_statistics()  # while the compiler is busy, not while chains wait for the verdict on their first draws
        compiling.result()
    if fits(method) > 1:
        return _best(plan, starts, ledger("chains"), progress)
    key = jax.random.fold_in(plan.key, Stream.PILOT)
    piloted = find_settings(method, bound, plan.settings, key, starts, plan.keeping, ledger, progress)
    for note in piloted.notes:
        tell(note)
    return draw(plan, Begun(piloted, starts.how, starts.cost + piloted.cost), ledger("chains"), progress)


def _compile_ahead(plan: Plan) -> Future[Any] | None:
    """Begin to compile the first program after the start, if the start is trained, which compiles and runs another."""
    method, (target, data) = plan.method, plan.bound[:2]
    if plan.given is not None or fits(method) > 1 or start_of(method, plan.model) not in ("ensemble", "map"):
        return None
    first = method.pilot(plan.settings) or method
    with tracing(method.precision):
        position: Any = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in target.position(data).items()}
        arrangement, _ = arrange(first)
        return arrangement.compile_ahead(first.kernel(), target, data, position, plan.key, plan.settings)


def draw(plan: Plan, begun: Begun, ledger: Ledger, progress: bool) -> Posterior:
    """Run the chains of a plan, from where they begin or from what the `ledger` already holds."""
    method, bound = plan.method, plan.bound
    outcome = drive(_chains_stage(plan, begun.piloted), ledger, progress)
    going = [chain for chain in range(method.chains) if chain not in outcome.stopped]
    concerns = method.concerns(bound.target, bound.data, outcome.statistics, going)
    for concern in concerns:
        tell(concern)
    for chain, why in outcome.stopped.items():
        tell(f"chain {chain} stopped before its end, and its draws are left out: {why}")
    goes_on = isinstance(method, Sampler) and not ledger.durable  # on disk, the directory knows
    return plan.posterior(
        outcome.draws,
        outcome.statistics,
        outcome.curves,
        outcome.averages,
        cost=begun.cost + outcome.cost,
        start=begun.start,
        notes=plan.notes + begun.piloted.notes,
        ended=outcome.ended,
        stopped=outcome.stopped,
        concerns=concerns,
        guide=method.fitted(outcome.states[going[0]]),
        further=Further(plan, begun, ledger, outcome.saved, outcome.cost) if goes_on else None,
    )


def _chains_stage(plan: Plan, piloted: Piloted) -> Stage:
    """All chains, each from its start or from where the pilot got to."""
    method, bound = plan.method, plan.bound
    return Stage(
        title=method.name,
        method=method,
        target=bound.target,
        data=[bound.data] * method.chains,
        key=plan.key,
        starts=piloted.positions,
        settings=piloted.settings,
        keeping=plan.keeping,
        stop=stop_of(method, plan.model, plan.keeping.probes, bound.deterministic),
    )


def _best(plan: Plan, starts: Starts, ledger: Ledger, progress: bool) -> Posterior:
    """The posterior of the best of several fits from different starts."""
    method, bound = plan.method, plan.bound
    assert isinstance(method, Optimisation)
    together, data = restarts(method, bound.data, plan.key)
    each, cost, ended = fit_together(together, bound.target, data, starts.positions, ledger, progress)
    draws, statistics, curves, guide = best(each, method.restarts)
    notes = plan.notes + failed_restarts(method, guide)
    for note in notes[len(plan.notes) :]:
        tell(note)
    return plan.posterior(
        draws, statistics, curves, [], cost=starts.cost + cost, start=starts.how, ended=ended, guide=guide, notes=notes
    )


def failed_restarts(method: Method, guide: Values) -> tuple[str, ...]:
    """A note on which of several fits failed; empty if none did."""
    failed = np.flatnonzero(np.isnan(guide.get("restart_loss", np.zeros(0))))
    if not failed.size:
        return ()
    return (
        f"{method.name}: of {fits(method)} restarts {', '.join(map(str, failed))} failed, as the loss was no longer "
        "finite; the best of the others is kept",
    )


def check_until(model: Callable[..., Any], method: Method) -> None:
    """Raise ValueError if a sampler is to be stopped by draws that it does not keep."""
    if isinstance(method, Sampler) and method.until and method.keep == "none" and not isinstance(model, Network):
        raise ValueError('until needs draws to judge; with keep="none" leave it out')


def _keeping(model: Callable[..., Any], method: Method, data: Data, predict_at: Any) -> Keeping:
    network = isinstance(model, Network)
    keep = method.keep if isinstance(method, Sampler) else "all"
    if predict_at is not None and not (network and method.kept):
        raise ValueError("predict_at averages the predictions of a sampler's draws of a network; leave it out")
    if keep == "last_layer" and not network:
        raise ValueError('keep="last_layer" needs a network of models, whose layers are known; use "all" or "none"')
    check_until(model, method)
    inputs = (
        model.validate(inputs_of(predict_at), precision=method.precision)[0]
        if isinstance(model, Network) and predict_at is not None
        else None
    )
    judged = probes(data.arrays[0], model.codes) if isinstance(model, Network) else np.zeros((0, 0), np.float32)
    return Keeping(keep, model, judged, inputs)
