"""`touchstone sweep`: one network over temperatures or prior scales."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

import inference
import models
from touchstone.answers import AsJSON, answering
from touchstone.choices import (
    Activation,
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
    numbers,
)
from touchstone.folders import folder_for

__all__ = ["sweep"]


def sweep(
    name: Name = None,
    data_: DataOption = None,
    target: Target = None,
    task: Task = None,
    drop: Drop = None,
    embed: Embed = None,
    missing: Missing = "unknown",
    temperature: Annotated[str, typer.Option(help="Temperatures to sweep over, such as 0.1,0.3,1,3; or one.")] = "1",
    prior_scale: Annotated[str, typer.Option(help="Prior scales to sweep over, such as 0.3,1,3; or one.")] = "1",
    method: MethodNames = "nuts",
    option: Option = None,
    model: ModelName = "mlp",
    hidden: Hidden = "50",
    activation: Activation = "relu",
    fan_in: FanIn = False,
    tempering: Annotated[
        str, typer.Option(help="What the temperature divides: posterior or likelihood.")
    ] = "posterior",
    seeds: Annotated[int, typer.Option(help="Number of seeds; every value is run with each of them.")] = 3,
    split: SplitSeed = 0,
    plot: Annotated[Path | None, typer.Option(help="Where to write the figure: a .png, .pdf or .svg file.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where the runs live; the same call resumes them.")] = None,
    as_json: AsJSON = False,
) -> None:
    """Score a network over temperatures or prior scales, and print the table with standard errors over seeds."""
    with answering(as_json) as answer:
        if plot is not None and plot.suffix not in (".png", ".pdf", ".svg"):
            raise ValueError(f"--plot must end in .png, .pdf or .svg, got {str(plot)!r}")
        temperatures, scales = numbers("--temperature", temperature), numbers("--prior-scale", prior_scale)
        ((chosen_name, options),) = chosen_methods(method.replace(",", " "), option, None).items()
        chosen = chosen_data(
            name, data_, split, target=target, task=task, drop=drop, embed=embed, missing=missing
        )  # fmt: skip
        prior = models.Normal(scales[0] if len(scales) == 1 else 1.0, fan_in=fan_in)
        fitted = chosen.suited(network(model, hidden, activation, prior, chosen.train.classes))
        answer.say("\n".join(chosen.remarks), remarks=list(chosen.remarks))
        with nullcontext() if plot is None else folder_for(plot):
            found = inference.sweep(
                fitted, chosen.train, chosen.test, method=chosen_name,
                temperature=temperatures[0] if len(temperatures) == 1 else temperatures,
                prior_scale=None if len(scales) == 1 else scales,
                tempering=tempering, seeds=seeds, directory=directory, **options,
            )  # fmt: skip
        answer.say(
            f"{chosen.test.name}\n{found}",
            data=chosen.test.name,
            name=found.name,
            values=found.labels,
            seeds=found.seeds,
            scores=found.scores,
        )
        if plot is not None:
            found.plot(plot)
            answer.say(f"written: {plot}", plot=plot)
