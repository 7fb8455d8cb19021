"""The `touchstone` command: run a method on a data set, or sweep over its settings, and write reports about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import data
import diagnostics
import inference
import models
from diagnostics.reports.page import default_reference
from inference.catalogue import METHODS

__all__ = ["app"]

_METHODS = f"One of {', '.join(METHODS)}."

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Wrong input ends the command with its message and exit code 2, without a traceback."""
    try:
        yield
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        raise typer.Exit(2) from error


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="DATA", help="A data set; `touchstone data` lists them.")],
    method: Annotated[str, typer.Option(help=_METHODS)] = "nuts",
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="A method option: -o draws=200.")] = None,
    hidden: Annotated[str, typer.Option(help="Units of the hidden layers, such as 50 or 100,100; '' for none.")] = "50",
    activation: Annotated[str, typer.Option(help="Activation of the hidden layers.")] = "relu",
    prior_scale: Annotated[float, typer.Option(help="Standard deviation of the weights' normal prior.")] = 1.0,
    fan_in: Annotated[
        bool, typer.Option("--fan-in", help="Divide the prior scale by the root of each layer's inputs.")
    ] = False,
    temperature: Annotated[float, typer.Option(help="Temperature of the posterior; below 1 it is cold.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    split: Annotated[int, typer.Option(help="Seed of the split into training and test rows.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Where to write the posterior: a .npz file.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where the run lives, so that it survives a crash.")] = None,
) -> None:
    """Fit a network to a data set, print its scores and its verdict, and save the posterior if asked to."""
    with _plain_errors():
        if out is not None:
            out.parent.mkdir(parents=True, exist_ok=True)  # before the run, not after it
        train, test = (part.flat() for part in data.load(name).split(seed=split))
        layers = _layers(hidden)
        model = models.mlp(layers, activation, models.Normal(prior_scale, fan_in=fan_in), _likelihood(train.classes))
        options = dict(_assignment(text) for text in option or [])
        posterior = inference.run(
            model, train, method=method, seed=seed, temperature=temperature, directory=directory, **options
        )
        if out is not None:
            posterior.save(out)
            typer.echo(f"saved: {out}")
        if posterior.complete:
            typer.echo(f"{test.name}: " + _words(diagnostics.scores(posterior.predict(test), test)))
        typer.echo(str(diagnostics.convergence(posterior)))


def _tell_end(directory: Path, posterior: inference.Posterior) -> None:
    """Print how many draws a run in a directory has, why it ended, and its verdict."""
    chains, draws = posterior.shape
    typer.echo(f"{directory}: {chains} x {draws} draws, ended: {posterior.ended}")
    typer.echo(str(diagnostics.convergence(posterior)))


@app.command()
def resume(
    directory: Annotated[Path, typer.Argument(help="Directory of a run that `touchstone run --directory` began.")],
    other_versions: Annotated[
        bool, typer.Option("--other-versions", help="Resume although a package has another version.")
    ] = False,
) -> None:
    """Resume a run from its last save, and print its verdict."""
    with _plain_errors():
        posterior = inference.resume(directory, other_versions=other_versions)
        _tell_end(directory, posterior)


@app.command()
def extend(
    directory: Annotated[Path, typer.Argument(help="Directory of a run that `touchstone run --directory` began.")],
    draws: Annotated[int, typer.Option(help="Draws per chain in all, those that are there included.")],
) -> None:
    """Make more draws of a run that has come to its end, and print its verdict."""
    with _plain_errors():
        posterior = inference.extend(directory, draws=draws)
        _tell_end(directory, posterior)


@app.command()
def sweep(
    name: Annotated[str, typer.Argument(metavar="DATA", help="A data set; `touchstone data` lists them.")],
    temperature: Annotated[str, typer.Option(help="Temperatures to sweep over, such as 0.1,0.3,1,3; or one.")] = "1",
    prior_scale: Annotated[str, typer.Option(help="Prior scales to sweep over, such as 0.3,1,3; or one.")] = "1",
    method: Annotated[str, typer.Option(help=_METHODS)] = "nuts",
    option: Annotated[list[str] | None, typer.Option("--option", "-o", help="A method option: -o draws=200.")] = None,
    hidden: Annotated[str, typer.Option(help="Units of the hidden layers, such as 50 or 100,100; '' for none.")] = "50",
    activation: Annotated[str, typer.Option(help="Activation of the hidden layers.")] = "relu",
    fan_in: Annotated[
        bool, typer.Option("--fan-in", help="Divide prior scales by the root of each layer's inputs.")
    ] = False,
    tempering: Annotated[
        str, typer.Option(help="What the temperature divides: posterior or likelihood.")
    ] = "posterior",
    seeds: Annotated[int, typer.Option(help="Number of seeds; every value is run with each of them.")] = 3,
    split: Annotated[int, typer.Option(help="Seed of the split into training and test rows.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="Where to write the figure: a .png, .pdf or .svg file.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where the runs live; the same call resumes them.")] = None,
) -> None:
    """Score a network over temperatures or prior scales, and print the table with standard errors over seeds."""
    with _plain_errors():
        if plot is not None:
            if plot.suffix not in (".png", ".pdf", ".svg"):
                raise ValueError(f"--plot must end in .png, .pdf or .svg, got {str(plot)!r}")
            plot.parent.mkdir(parents=True, exist_ok=True)
        train, test = (part.flat() for part in data.load(name).split(seed=split))
        temperatures, scales = _numbers("--temperature", temperature), _numbers("--prior-scale", prior_scale)
        prior = models.Normal(scales[0] if len(scales) == 1 else 1.0, fan_in=fan_in)
        found = inference.sweep(
            models.mlp(_layers(hidden), activation, prior, _likelihood(train.classes)), train, test, method=method,
            temperature=temperatures[0] if len(temperatures) == 1 else temperatures,
            prior_scale=None if len(scales) == 1 else scales,
            tempering=tempering, seeds=seeds, directory=directory,
            **dict(_assignment(text) for text in option or []),
        )  # fmt: skip
        typer.echo(f"{test.name}\n{found}")
        if plot is not None:
            found.plot(plot)
            typer.echo(f"written: {plot}")


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(help="Saved posteriors, or directories of runs.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    name: Annotated[str | None, typer.Option("--data", help="The data set to score the posteriors on.")] = None,
    split: Annotated[int, typer.Option(help="Seed of the data set's split, as in `touchstone run`.")] = 0,
    reference: Annotated[str | None, typer.Option(help="Name of the posterior that others are compared with.")] = None,
) -> None:
    """Write a report about one posterior, or about several side by side; also about runs that are under way."""
    with _plain_errors():
        test = data.load(name).split(seed=split)[1].flat() if name else None
        path = diagnostics.report(_loaded(files), test, out, reference=reference)
        typer.echo(f"written: {path}")


@app.command()
def compare(
    files: Annotated[list[Path], typer.Argument(help="Saved posteriors, or directories of runs.")],
    name: Annotated[str, typer.Option("--data", help="The data set to compare the posteriors on.")],
    split: Annotated[int, typer.Option(help="Seed of the data set's split, as in `touchstone run`.")] = 0,
    reference: Annotated[
        str | None, typer.Option(help="Name of the posterior to measure distances to; by default the first exact one.")
    ] = None,
) -> None:
    """Print the scores of several posteriors, their paired differences, and their distance to one of them."""
    with _plain_errors():
        posteriors = _loaded(files)
        test = data.load(name).split(seed=split)[1].flat()
        comparison = diagnostics.compare(posteriors, test, reference or default_reference(posteriors))
        typer.echo(f"{comparison}\n\n{comparison.summary}")


@app.command("data")
def list_data() -> None:
    """List the data sets; those that are not at hand are downloaded, or asked for, when they are first loaded."""
    for name in data.names():
        if not data.at_hand(name):
            typer.echo(f"{name:22}not in the cache")
            continue
        dataset = data.load(name)
        task = "regression" if dataset.classes is None else f"{dataset.classes} classes"
        shape = "x".join(map(str, dataset.x.shape[1:]))
        typer.echo(f"{name:22}{len(dataset):>6} rows x {shape:<8} {task:12} {dataset.source}")


def _loaded(files: list[Path]) -> dict[str, inference.Posterior]:
    """The loaded posteriors, keyed by file name or, where two files share a name, by path."""
    names = [file.stem for file in files]
    if len(set(names)) < len(names):
        names = [str(file.with_suffix("")) for file in files]
    return {name: inference.load(file) for name, file in zip(names, files, strict=True)}


def _likelihood(classes: int | None) -> models.Likelihood:
    if classes is None:
        return models.Gaussian()
    return models.Bernoulli() if classes == 2 else models.Categorical(classes)


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(units) for units in text.split(",") if units.strip())
    except ValueError as error:
        raise ValueError(f"--hidden must be numbers of units such as 50 or 100,100, got {text!r}") from error


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{name} must be numbers such as 0.1,0.3,1, got {text!r}") from error


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--option must look like draws=200, got {text!r}")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value  # a word, such as guide=gaussian


def _words(scores: dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in scores.items())


if __name__ == "__main__":
    app()
