"""`touchstone run`: fit a network to a data set or to a table, by one method or by several."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

import diagnostics
import inference
import models
from diagnostics.reports.page import default_reference
from inference.host.hosts import first_says, is_first
from touchstone.answers import Answer, AsJSON, answering, verdict_of
from touchstone.choices import (
    Activation,
    Chosen,
    DataOption,
    Drop,
    Embed,
    FanIn,
    Hidden,
    MethodNames,
    Missing,
    ModelName,
    Name,
    Option,
    SplitSeed,
    Target,
    Task,
    chosen_data,
    chosen_methods,
    network,
)
from touchstone.folders import check_free, fill, folder_for, in_one_step
from touchstone.in_python import in_python
from touchstone.several_hosts import Coordinator, Host, Hosts, join

__all__ = ["run"]

_FILE = ".npz"


def run(
    name: Name = None,
    data_: DataOption = None,
    target: Target = None,
    task: Task = None,
    drop: Drop = None,
    embed: Embed = None,
    missing: Missing = "unknown",
    model: ModelName = "mlp",
    hidden: Hidden = "50",
    activation: Activation = "relu",
    prior_scale: Annotated[float, typer.Option(help="Standard deviation of the weights' normal prior.")] = 1.0,
    fan_in: FanIn = False,
    method: MethodNames = "nuts",
    chains: Annotated[int | None, typer.Option(help="The same as -o chains=N.")] = None,
    option: Option = None,
    temperature: Annotated[float, typer.Option(help="Temperature of the posterior; below 1 it is cold.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    split: SplitSeed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for posterior, predictions, scores and report; or a .npz file for the posterior."),
    ] = None,
    directory: Annotated[Path | None, typer.Option(help="Where the run lives, so that it survives a crash.")] = None,
    coordinator: Coordinator = None,
    hosts: Hosts = None,
    host: Host = None,
    as_json: AsJSON = False,
) -> None:
    """Fit a network to a data set or to your own table, and print its scores and its verdict.

    Several methods with commas between them, such as hmc,svi,laplace, make a comparison.
    """
    with answering(as_json) as answer:
        join(coordinator, hosts, host, directory)
        methods = chosen_methods(method, option, chains)
        if out is not None and out.suffix == _FILE and len(methods) > 1:
            raise ValueError(f"--out must be a folder for several methods, got the file {str(out)!r}")
        chosen = chosen_data(
            name, data_, split, target=target, task=task, drop=drop, embed=embed, missing=missing
        )  # fmt: skip
        prior = models.Normal(prior_scale, fan_in=fan_in)
        fitted = chosen.suited(network(model, hidden, activation, prior, chosen.train.classes))
        text = in_python(chosen, split, fitted, methods, seed, temperature, fan_in)
        if out is not None:
            first_says(lambda: check_free(out))
        answer.say("".join(f"{remark}\n" for remark in chosen.remarks).rstrip(), remarks=list(chosen.remarks))
        answer.say(f"\nThe same run in Python:\n\n{_indented(text)}\n", python=text)
        # A place that can't be written is found before the run.
        with folder_for(out) if out is not None and is_first() else nullcontext():
            posteriors = {
                each: inference.run(
                    fitted, chosen.train, method=each, seed=seed, temperature=temperature,
                    directory=directory / each if directory is not None and len(methods) > 1 else directory, **options,
                )
                for each, options in methods.items()
            }  # fmt: skip
            if is_first():
                _keep(answer, out, posteriors, chosen)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines())


def _keep(answer: Answer, out: Path | None, posteriors: dict[str, inference.Posterior], chosen: Chosen) -> None:
    """Write what was asked for, and say how good it is."""
    results = {name: _result(posterior, chosen) for name, posterior in posteriors.items()}
    if out is not None and out.suffix == _FILE:
        next(iter(posteriors.values())).save(out)
    elif out is not None:
        with in_one_step(out) as folder:
            fill(folder, posteriors, chosen, results)
    if out is not None:
        answer.say(f"saved: {out}")
    answer.say(out=out, data=chosen.test.name, results=results)
    for name, posterior in posteriors.items():
        named = f" by {name}" if len(posteriors) > 1 else ""
        if posterior.complete:
            answer.say(f"{chosen.test.name}{named}: " + _words(results[name]["scores"]))
        answer.say(str(diagnostics.convergence(posterior)))
    if len(posteriors) > 1 and all(posterior.complete for posterior in posteriors.values()):
        comparison = diagnostics.compare(posteriors, chosen.test, default_reference(posteriors))
        answer.say(f"\n{comparison}\n\n{comparison.closeness}".rstrip(), summary=comparison.summary)


def _result(posterior: inference.Posterior, chosen: Chosen) -> dict[str, Any]:
    """The scores of a posterior on the test rows, if it can predict, and its verdict."""
    scores = diagnostics.scores(posterior.predict(chosen.test), chosen.test) if posterior.complete else {}
    finite = {name: value if math.isfinite(value) else None for name, value in scores.items()}
    return {"scores": finite, **verdict_of(posterior)}


def _words(scores: dict[str, float | None]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {math.nan if value is None else value:.4g}" for name, value in scores.items()
    )
