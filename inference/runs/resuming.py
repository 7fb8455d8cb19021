"""Runs that survive: begun in a directory, looked at while they go on, and resumed after a crash.

What is asked of a run is written down before it begins, and compared before it is resumed: another model, other data,
options or versions would not continue the chains that were begun.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax

from data import Origin, Split
from data.pairs import as_pair
from inference.catalogue import METHODS
from inference.disk.journal import Journal
from inference.disk.run_directory import STAGES, RunDirectory, described, differences, surroundings
from inference.disk.shared_directory import run_directory
from inference.engine import programs
from inference.engine.chain import saved_shapes
from inference.engine.ledger import Values
from inference.host.compiling import tracing
from inference.host.machine import Cost, peak_memory
from inference.host.telling import tell
from inference.methods import Method
from inference.optimisation.optimiser import Optimisation
from inference.results.posterior import Posterior
from inference.runs.execution import Plan, execute, failed_restarts, plan
from inference.runs.side_by_side import Together, best, restarts, separate
from inference.runs.starts import fits, start_of
from models import restored_model, to_recipe
from models.validation import positive_number

__all__ = ["check_more", "execute_in", "extend_directory", "look", "resume"]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def execute_in(
    directory: str | Path,
    planned: Plan,
    args: tuple[Any, ...],
    predict_at: Any,
    progress: bool,
    every: float,
    again: bool = False,
) -> Posterior:
    """Begin a run in a directory; or, if `again`, resume the same run that was begun there.

    Raises:
        ValueError: if the directory already holds a run; the message says what differs between it and this one.
    """
    folder = run_directory(directory, every)
    arguments, arrays = described((*_plain(args), *_plain((predict_at,))[:1], *_given(planned)))
    asked = _asked(planned, arguments, arrays)
    with _until_full(directory), folder:
        if folder.exists():
            theirs = folder.asked()
            names = theirs["method"]["name"], asked["method"]["name"]
            theirs["origin"] = asked.get("origin")  # where equal data came from makes no difference
            lines = differences(*names, "method") or differences(theirs, {**asked, "origin": theirs["origin"]})
            if again and not lines:
                return execute(planned, folder.stage, progress)
            what = "the same run" if not lines else "another run (" + "; ".join(lines) + ")"
            raise ValueError(
                f"{directory} holds {what}; go on with it by inference.resume({str(directory)!r}), or use another "
                "directory"
            )
        folder.create(asked, arrays)
        return execute(planned, folder.stage, progress)


def resume(
    directory: str | Path,
    model: Callable[..., Any] | None = None,
    *,
    progress: bool = True,
    save_every: float = 10.0,
    other_versions: bool = False,
) -> Posterior:
    """Resume a run from its last save; the result is, bit for bit, what a run without a break would have given.

    A run that has come to its end is read; what is damaged in it is computed again.

    Args:
        directory: the run's directory.
        model: the model, if it is not a built-in one; compared with the one that the run was begun with.
        progress: show bars, or lines where there is no terminal.
        save_every: seconds between two saves.
        other_versions: resume even if JAX, another package or the platform is not what the run was begun with; the
            draws are as good, but not the same bits.

    Raises:
        FileNotFoundError: if there is no run.
        ValueError: if model, data or versions are not the run's; the message says what differs.
        OSError: if the directory is in use, or its disk is full.
    """
    positive_number("save_every", save_every)
    folder = run_directory(directory, save_every)
    folder.asked()  # raises if there is no run; what it says is read under the lock, which may complete an extension
    with _until_full(directory), folder:
        asked = folder.asked()
        planned, now = _planned(folder, asked, model)
        lines = [line for line in differences(asked, now) if not (other_versions and line.startswith("versions."))]
        if lines:
            remedy = "" if any(not line.startswith("versions.") for line in lines) else "; other_versions=True goes on"
            raise ValueError(f"{directory} was begun otherwise: {'; '.join(lines)}{remedy}")
        return execute(planned, folder.stage, progress)


def extend_directory(
    directory: str | Path,
    longer: Callable[[Plan], Plan],
    model: Callable[..., Any] | None,
    progress: bool,
    save_every: float,
) -> Posterior:
    """Resume a run as the `longer` one that its plan becomes; see `inference.extend`."""
    positive_number("save_every", save_every)
    folder = run_directory(directory, save_every)
    folder.asked()  # raises if there is no run
    with _until_full(directory), folder:
        asked = folder.asked()
        planned, now = _planned(folder, asked, model)
        if lines := differences(asked, now):
            raise ValueError(f"{directory} was begun otherwise: {'; '.join(lines)}")
        plan = longer(planned)
        chains = folder.stage("chains")
        made = max((chain["kept"] for chain in chains.manifest["chains"]), default=0) if chains.manifest else 0
        check_more(plan.method, made)
        form = partial(_saved_form, planned, *_driven(planned))
        folder.lengthen(len(plan.method.kept), {**now, "method": plan.method.record()}, form)
        return execute(plan, folder.stage, progress)


def check_more(method: Method, made: int) -> None:
    """Raise ValueError unless `method` makes more draws per chain than were `made`."""
    wanted = len(method.kept)
    if wanted <= made:
        raise ValueError(f"draws are all draws per chain, and the run has {made}: give more than that, not {wanted}")


def look(directory: str | Path, model: Callable[..., Any] | None = None) -> Posterior:
    """The posterior of what a run has drawn so far; only reads the directory, and needs no lock.

    Raises:
        FileNotFoundError: if there is no run.
        ValueError: if the run has no draws or can't be read, or the model is not the run's.
        FloatingPointError: if the draws can't be used, for a reason for which `run` raises it too.
    """
    folder = RunDirectory(directory)
    asked = folder.asked()
    planned, now = _planned(folder, asked, model)
    lines = [line for line in differences(asked, now) if not line.startswith("versions.")]
    if lines:
        raise ValueError(f"{directory} was begun otherwise: {'; '.join(lines)}")
    stages = {name: folder.stage(name) for name in STAGES}
    saves = [stage.manifest for stage in stages.values() if stage.manifest is not None]
    chains = stages["chains"]
    fitted = not planned.method.kept  # then the draws are made from the states
    driven, data = _driven(planned)
    draws, scalars, ends = chains.look(
        partial(_saved_form, planned, driven, data) if fitted or planned.keeping.inputs is not None else None
    )
    if chains.manifest is None or not scalars or not next(iter(scalars.values())).shape[1]:
        raise ValueError(f"{directory} has no draws that can be read: {_whereabouts(stages)}")
    curves: Values = {}
    guide: Values = {}
    going = [i for i in range(driven.chains) if i not in chains.stopped]
    if fitted:
        curves = scalars
        with tracing(planned.method.precision):
            states = [(data[i], *end[:2]) for i, end in zip(going, ends, strict=True)]
            draws, scalars, finished = programs.conclusions(driven, planned.bound.target, states)
        if isinstance(driven, Together):
            each = separate(driven, fits(planned.method), going, draws, scalars, curves, finished)
            draws, scalars, curves, guide = best(each, fits(planned.method))
        else:
            guide = planned.method.fitted(finished[0])
    concerns = planned.method.concerns(planned.bound.target, planned.bound.data, scalars, going)
    for concern in concerns:
        tell(concern)
    cost = Cost(
        sum(save["compile_seconds"] for save in saves),
        sum(save["run_seconds"] for save in saves),
        round(sum(chain["gradients"] for save in saves for chain in save["chains"])),
        peak_memory(),
    )
    return planned.posterior(
        draws, scalars, curves, [end[2] for end in ends if end[2] is not None], cost=cost,
        start="given" if planned.given is not None else start_of(planned.method, planned.model),
        ended=chains.manifest["ended"] or "unfinished",
        stopped={} if isinstance(driven, Together) else chains.stopped, guide=guide, concerns=concerns,
        notes=planned.notes + failed_restarts(planned.method, guide),
    )  # fmt: skip


def _driven(planned: Plan) -> tuple[Method, Sequence[Any]]:
    """The method that the driver runs, the plan's own or several fits of it together, and the data of each chain."""
    method, data = planned.method, planned.bound.data
    if fits(method) == 1:
        return method, [data] * method.chains
    assert isinstance(method, Optimisation)
    together, every = restarts(method, data, planned.key)
    return together, together.portions(every)


def _saved_form(planned: Plan, driven: Method, data: Sequence[Any]) -> Any:
    """The form of what is saved of a chain that runs `driven`; see `saved_shapes`."""
    target = planned.bound.target
    with tracing(planned.method.precision):
        position = target.position(planned.bound.data)
        if isinstance(driven, Together):
            size = data[0].keys.shape[0]
            position = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((size, *leaf.shape), leaf.dtype), position)
        return saved_shapes(driven, target, data[0], position, planned.key, planned.settings, planned.keeping)


def _whereabouts(stages: dict[str, Journal]) -> str:
    """How far a run without draws has come, in words."""
    for name, stage in reversed(stages.items()):
        if stage.manifest is not None:
            return f"stage '{name}', iteration {min(chain['done'] for chain in stage.manifest['chains'])}"
    return "it has just begun"


def _planned(folder: RunDirectory, asked: dict[str, Any], model: Any) -> tuple[Plan, dict[str, Any]]:
    """The plan of a run that was begun, and what would be asked for if it were begun now."""
    restored = restored_model(asked["model"], model, folder.path)
    try:
        *args, predict_at = folder.arguments(asked)
        start = None
        if asked.get("start") == "given":  # then it is the last argument
            *args, predict_at, start = *args, predict_at
        method = METHODS[asked["method"]["name"]](**asked["method"]["options"])
        # An option that there was not when the run was begun has its default.
        asked["method"]["options"] = {**method.record()["options"], **asked["method"]["options"]}
        seed = asked["seed"] if isinstance(asked["seed"], int) else tuple(int(word) for word in asked["seed"])
        origin = Origin.from_json(asked["origin"]) if "origin" in asked else None
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{folder.path} can't be read, or it is damaged: {error}") from error
    planned = plan(restored, tuple(args), method, seed, asked["temperature"], asked["tempering"], predict_at, start)
    planned = replace(planned, origin=origin)
    return planned, _asked(planned, *described((*args, predict_at, *_given(planned))))


def _asked(planned: Plan, arguments: list[Any], arrays: list[Any]) -> dict[str, Any]:
    """What is asked of a run, as JSON values."""
    asked = {
        "model": to_recipe(planned.model),
        "identity": planned.bound.target.identity,
        "method": planned.method.record(),
        "seed": planned.seed,
        "temperature": planned.temperature,
        "tempering": planned.tempering,
        "arguments": arguments,
        **({} if planned.given is None else {"start": "given"}),
        **({} if planned.origin is None else {"origin": planned.origin.to_json()}),
        **surroundings(arrays),
    }
    return json.loads(json.dumps(asked))


def _given(planned: Plan) -> tuple[Any, ...]:
    """The weights that the chains start from, as one more argument of the run; nothing if there are none."""
    return () if planned.given is None else (planned.given,)


def _plain(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return as_pair("run", args[0]) if len(args) == 1 and isinstance(args[0], Split) else args


@contextmanager
def _until_full(directory: str | Path) -> Iterator[None]:
    """A context that tells, where the disk is full, what this means for the run."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise OSError(
            error.errno,
            f"the disk of {directory} is full; what was saved is intact: make room, then "
            f"inference.resume({str(directory)!r})",
        ) from error
