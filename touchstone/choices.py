"""What users choose by options: the data, the network, the methods and their options."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import data
import models
from data.tabular.building import TASKS, scored_rows
from data.tabular.reading import digest
from data.tabular.schema import MISSING_POLICIES
from inference.catalogue import METHODS, chosen_method

__all__ = [
    "Activation",
    "Chosen",
    "DataOption",
    "Drop",
    "Embed",
    "FanIn",
    "Hidden",
    "MethodNames",
    "Missing",
    "ModelName",
    "Name",
    "Option",
    "SplitSeed",
    "Target",
    "Task",
    "chosen_data",
    "chosen_methods",
    "is_file",
    "likelihood_of",
    "network",
    "numbers",
    "rows_to_score",
]

_OF_RUN = ("predict_at", "save_every", "stochastic", "tempering", "weights")  # what is no method's own option
_KNOWN = f"One of {', '.join(METHODS)}."


def _starting_with(words: Any) -> Any:
    return lambda incomplete: [word for word in words() if word.startswith(incomplete)]


Name = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="A data set, which `touchstone data` lists, or a CSV or Parquet file.",
        autocompletion=_starting_with(data.names),
    ),
]
DataOption = Annotated[
    str | None, typer.Option("--data", help="The same as DATA.", autocompletion=_starting_with(data.names))
]
Target = Annotated[str | None, typer.Option(help="The column of a file to predict.")]
Task = Annotated[
    str | None,
    typer.Option(help=f"{' or '.join(TASKS)}; by default classification for text and up to 20 different integers."),
]
Drop = Annotated[list[str] | None, typer.Option(help="A column of a file to leave out; can be repeated.")]
Embed = Annotated[
    list[str] | None, typer.Option(help="A column of a file whose categories get inferred units; can be repeated.")
]
Missing = Annotated[str, typer.Option(help=f"What to do with missing inputs: {', '.join(MISSING_POLICIES)}.")]
ModelName = Annotated[str, typer.Option(help="The network: mlp or linear.")]
Hidden = Annotated[str, typer.Option(help="Units of the hidden layers, such as 50 or 100,100; '' for none.")]
Activation = Annotated[str, typer.Option(help="Activation of the hidden layers.")]
FanIn = Annotated[bool, typer.Option("--fan-in", help="Divide prior scales by the root of each layer's inputs.")]
MethodNames = Annotated[str, typer.Option(help=_KNOWN, autocompletion=_starting_with(lambda: list(METHODS)))]
Option = Annotated[list[str] | None, typer.Option("--option", "-o", help="A method option: -o draws=200.")]
SplitSeed = Annotated[int, typer.Option(help="Seed of the split into training and test rows.")]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The data that a user chose.

    Attributes:
        dataset: the data set.
        train: its training part.
        test: its test part.
        call: how to make the data set in Python.
    """

    dataset: data.Dataset
    train: data.Split
    test: data.Split
    call: str

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was found in a table."""
        return self.dataset.remarks if isinstance(self.dataset, data.Table) else ()

    def suited(self, network: models.Network) -> models.Network:
        """The network with what a table needs in front of it."""
        return models.for_table(network, self.train) if isinstance(self.dataset, data.Table) else network


def chosen_data(
    name: str | None,
    option: str | None,
    split: int,
    *,
    target: str | None,
    task: str | None,
    drop: list[str] | None,
    embed: list[str] | None,
    missing: str,
) -> Chosen:
    """The data set or the table that the options name, and its split."""
    if (name is None) == (option is None):
        raise ValueError("name the data once: a data set of `touchstone data`, or a CSV or Parquet file")
    where = name if name is not None else str(option)
    if is_file(where) or (target is not None and where not in data.names()):
        if target is None:
            raise ValueError(f"{where} is a table: name the column to predict by --target")
        given: dict[str, Any] = {"target": target, "task": task, "drop": tuple(drop or ()), "embed": tuple(embed or ())}
        dataset: data.Dataset = data.table(where, **given, missing=missing)
        said = {key: value for key, value in given.items() if value}
        said |= {} if missing == "unknown" else {"missing": missing}
        call = f"data.table({where!r}, {', '.join(f'{key}={value!r}' for key, value in said.items())})"
    else:
        for option_name, value in {"target": target, "task": task, "drop": drop, "embed": embed}.items():
            if value:
                raise ValueError(f"--{option_name} is for tables in files, and {where!r} is a data set that is known")
        dataset, call = data.load(where), f"data.load({where!r})"
    train, test = (part.flat() for part in dataset.split(seed=split))
    return Chosen(dataset, train, test, call)


def is_file(where: str) -> bool:
    """Whether the user means a file: it has the name of a table, or is there and is no known data set."""
    endings = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".gz")
    return where.endswith(endings) or (where not in data.names() and Path(where).exists())


def rows_to_score(where: str, split: int, origin: data.Origin | None) -> data.Split:
    """The test rows of a known set, of the table that a posterior was run on, or all rows of a new table like it."""
    if not is_file(where):
        return data.load(where).split(seed=split)[1].flat()
    if origin is None or origin.schema is None:
        raise ValueError(f"the posterior was not run on a table, so it has no use for {where}")
    if Path(where).is_file() and digest(Path(where)) == origin.sha256:
        return data.table(where, **dict(origin.options)).split(seed=origin.seed, test=origin.test)[1]
    return scored_rows(where, origin)


def network(name: str, hidden: str, activation: str, prior: models.Normal, classes: int | None) -> models.Network:
    """The network that the options describe."""
    if name not in ("mlp", "linear"):
        raise ValueError(f"--model must be mlp or linear, got {name!r}")
    return models.mlp(_layers(hidden) if name == "mlp" else (), activation, prior, likelihood_of(classes))


def likelihood_of(classes: int | None) -> models.Likelihood:
    """The likelihood of numbers, of two classes or of several."""
    if classes is None:
        return models.Gaussian()
    return models.Bernoulli() if classes == 2 else models.Categorical(classes)


def chosen_methods(names: str, options: list[str] | None, chains: int | None) -> dict[str, dict[str, Any]]:
    """What `inference.run` is given for each method, by its name; of several methods, those that know an option get it.

    Raises:
        ValueError: for an unknown method, an option that none of them takes, or a wrong value.
    """
    given = dict(map(_assignment, options or ())) | ({} if chains is None else {"chains": chains})
    methods = [name.strip() for name in names.split(",") if name.strip()] or [names]
    found = {}
    for name in methods:
        chosen_method(name, {})  # refuses a name that is not known
        taken = (*METHODS[name].takes(), *_OF_RUN)
        found[name] = {key: value for key, value in given.items() if len(methods) == 1 or key in taken}
        chosen_method(name, {key: value for key, value in found[name].items() if key not in _OF_RUN})
    for key in given:
        if not any(key in taken for taken in found.values()):
            raise ValueError(f"none of {', '.join(methods)} has an option {key!r}")
    return found


def numbers(name: str, text: str) -> list[float]:
    """Numbers with commas between them."""
    try:
        return [float(number) for number in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{name} must be numbers such as 0.1,0.3,1, got {text!r}") from error


def _layers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(units) for units in text.split(",") if units.strip())
    except ValueError as error:
        raise ValueError(f"--hidden must be numbers of units such as 50 or 100,100, got {text!r}") from error


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--option must look like draws=200, got {text!r}")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value  # a word, such as guide=gaussian
