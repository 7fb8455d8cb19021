"""The report: one HTML file with the verdict first, that opens from disk, without scripts or outside resources.

Everything that is shown is escaped, names of sites and data sets included. Sections that do not apply are absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data import Split
from data.files import replacing
from data.pairs import as_pair
from diagnostics import plots
from diagnostics.comparisons.comparison import Comparison, compared
from diagnostics.convergences.judging import Convergence, convergence
from diagnostics.reports.extreme_cases import Case, cases
from diagnostics.reports.model_table import Layer, layers
from diagnostics.reports.pictures import Picture, of_chains, of_predictions, picture
from inference import Posterior, Prediction, load
from inference.host.hosts import is_first
from inference.host.versions import version_of
from inference.results.prediction import Regression
from models import Network

__all__ = ["default_reference", "report"]

_PACKAGES = ("touchstone-bnn", "jax", "numpyro", "arviz", "numpy")
_STATES = {"interrupted": "stopped early", "unfinished": "not finished"}
_CASES = 5  # how many of the most certain cases are shown, and of the least certain
_SITES = 40  # rows of the table of sites; a deeper network shows its worst


@dataclass(frozen=True, eq=False)
class _Entry:
    """What the report says of one posterior."""

    name: str
    posterior: Posterior
    convergence: Convergence
    chains: tuple[Picture, ...]
    predictions: tuple[Picture, ...]
    cases: tuple[tuple[Case, ...], tuple[Case, ...]]
    call: str

    @property
    def state(self) -> str:
        """What to say beside the posterior's name if its run has not come to its end."""
        return _STATES.get(self.posterior.ended, "")

    @property
    def mark(self) -> str:
        """The CSS class for the verdict."""
        return {True: "passed", False: "failed", None: "none"}[self.convergence.passed]

    @property
    def sites(self) -> list[tuple[str, ...]]:
        """Rows of a table: each site's worst R-hat, least ESS, and Monte Carlo error over spread."""
        if self.convergence.weights is None:
            return []
        table = self.convergence.weights.by_site()
        worst = sorted(table, key=lambda name: -table[name]["rhat"])[:_SITES]
        return [
            (name, _number(row["rhat"], ".3f"), _number(row["ess_bulk"], ",.0f"), _number(row["ess_tail"], ",.0f"),
             _number(row["mcse_over_std"], ".3f"))
            for name, row in table.items() if name in worst
        ]  # fmt: skip

    @property
    def arranged(self) -> str:
        """How the chains shared the machine, and why; and the precision of products, where one was chosen."""
        spent = self.posterior.cost
        how = {
            "threads": "chains in threads",
            "vectorised": "chains in one program (vectorised)",
            "sharded": "chains over several devices (sharded)",
        }.get(spent.arrangement)
        chains = f"{how}: {spent.arranged}." if how and self.posterior.shape[0] > 1 else ""
        products = f"Products of float32 numbers have JAX's precision '{spent.products}'." if spent.products else ""
        return " ".join(filter(None, (chains, products)))

    @property
    def cost(self) -> list[str]:
        """The posterior's row of the table of costs."""
        spent, judged = self.posterior.cost, self.convergence
        memory = f"{spent.peak_memory / 2**30:.2f} GiB" if spent.peak_memory else ""
        return [
            self.name,
            " x ".join(map(str, self.posterior.shape)),
            f"{spent.compile_seconds:.1f}",
            f"{spent.run_seconds:.1f}",
            f"{spent.gradients:,}",
            memory,
            _number(judged.ess_per_second, ".3g"),
            _number(1000 * judged.ess_per_gradient, ".3g"),
        ]


def report(
    posterior: Posterior | str | Path | Mapping[str, Posterior | str | Path],
    test: Any = None,
    path: str | Path = "report.html",
    *,
    reference: str | None = None,
    title: str | None = None,
) -> Path:
    """Write a report about one posterior, or about several of the same data; of several hosts, the first one writes.

    Args:
        posterior: one, or several by name; each may also be a saved file, or the directory of a run, even if under way.
        test: a `Split` or `(x, y)` to score predictions on; without it the report is about convergence alone.
        path: where to write the HTML file.
        reference: the name of the posterior that the others are compared with; by default, if there are several, the
            first with several exact chains, else the first with chains of any kind.
        title: the title of the page.

    Returns:
        The path of the file.
    """
    if not is_first():
        return Path(path)
    posteriors = _loaded(posterior)
    if not posteriors:
        raise ValueError("report needs at least one posterior, got none")
    if test is not None:
        as_pair("report", test)
    if reference is None and len(posteriors) > 1:
        reference = default_reference(posteriors)
    elif reference is not None and reference not in posteriors:
        raise ValueError(f"reference must be one of {', '.join(posteriors)}, got {reference!r}")
    predictions = {} if test is None else _predictions(posteriors, test)
    comparison = None
    if predictions:
        able = {name: posteriors[name] for name in predictions}
        comparison = compared(able, predictions, test, reference if reference in able else None)
    several = len(posteriors) > 1
    page = _template().render(
        title=title or f"Posterior of {'several methods' if several else next(iter(posteriors))}",
        entries=[_entry(name, each, predictions.get(name), test) for name, each in posteriors.items()],
        lead=reference or next(iter(posteriors)),
        comparison=comparison,
        tables=comparison.tables()[: None if several else 1] if comparison else (),
        assay=_assay(comparison),
        units=_units(test, comparison),
        facts=_facts(posteriors, test),
        test_name=getattr(test, "name", "test data"),
        models=_models(posteriors),
        versions=", ".join(f"{package} {version_of(package)}" for package in _PACKAGES),
    )
    path = Path(path)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path


def default_reference(posteriors: Mapping[str, Posterior]) -> str | None:
    """The first posterior with several exact chains, else with one, else with any chains; None if there is none."""
    chains = {name: each for name, each in posteriors.items() if each.kind == "chains"}
    exact = {name: each for name, each in chains.items() if not each.method.caveat}
    several = {name: each for name, each in exact.items() if each.shape[0] > 1}
    return next(iter(several or exact or chains), None)


def _loaded(given: Posterior | str | Path | Mapping[str, Posterior | str | Path]) -> dict[str, Posterior]:
    if not isinstance(given, Posterior | str | Path | Mapping):
        raise TypeError(f"report needs a posterior, several by name, or a path, got {type(given).__name__}")
    if isinstance(given, Mapping):
        return {name: each if isinstance(each, Posterior) else load(each) for name, each in given.items()}
    posterior = given if isinstance(given, Posterior) else load(given)
    return {posterior.method.name: posterior}


def _predictions(posteriors: Mapping[str, Posterior], test: Any) -> dict[str, Prediction]:
    able = {name: each for name, each in posteriors.items() if isinstance(each.model, Network) and each.complete}
    return {name: each.predict(test) for name, each in able.items()}


def _entry(name: str, posterior: Posterior, prediction: Prediction | None, test: Any) -> _Entry:
    judged = convergence(posterior)
    pictures: tuple[Picture, ...] = ()
    shown: tuple[tuple[Case, ...], tuple[Case, ...]] = ((), ())
    if prediction is not None:
        pictures = of_predictions(prediction, test, _band(name, posterior, prediction, test))
        shown = cases(prediction, test, _CASES)
    return _Entry(name, posterior, judged, of_chains(posterior, judged), pictures, shown, _call(posterior))


def _band(name: str, posterior: Posterior, prediction: Prediction, test: Any) -> Picture | None:
    """The prediction along a single input, from outside the test data on one side to outside on the other."""
    x, y = map(np.asarray, as_pair("report", test))
    if not isinstance(prediction, Regression) or x.shape[1:] != (1,) or y.ndim != 1:
        return None
    margin = 0.15 * (x.max() - x.min())
    along = np.linspace(x.min() - margin, x.max() + margin, 200, dtype=np.float32)[:, None]
    drawn = posterior.predict(along)
    if isinstance(test, Split):
        location, scale = test.scaler.x_location, test.scaler.x_scale
        drawn, along, x, y = test.restore(drawn), along * scale + location, x * scale + location, test.y_original
    figure = plots.band({name: drawn}, along, (x, y))
    return picture(figure, "Mean and 90 % interval along the input, and the test data.")


def _call(posterior: Posterior) -> str:
    options = "".join(f", {key}={value!r}" for key, value in posterior.method.options().items() if value is not None)
    tempered = f", temperature={posterior.temperature}, tempering={posterior.tempering!r}"
    seed = (
        posterior.seed
        if isinstance(posterior.seed, int)
        else f"jax.random.wrap_key_data(jnp.array({posterior.seed}, 'uint32'))"
    )
    return f"inference.run(model, ..., method={posterior.method.name!r}, seed={seed}{options}{tempered})"


def _facts(posteriors: Mapping[str, Posterior], test: Any) -> list[tuple[str, str]]:
    """What was fitted to what, as pairs of a name and words."""
    first = next(iter(posteriors.values()))
    unknowns = sum(int(values[0, 0].size) for name, values in first.draws.items() if name not in first.deterministic)
    facts = [("unknowns", f"{unknowns:,}")] if first.complete else []
    observed = [f"{values.shape[0] if values.ndim else 1:,} of {name}" for name, values in first.observed.items()]
    if observed:
        facts.append(("observations", ", ".join(observed)))
    schema = first.origin.schema if first.origin is not None else None
    if schema is not None:
        facts.append(("target", schema.target.name))
        facts.append(("columns", ", ".join(column.name for column in schema.columns)))
        facts += [("missing numbers", f"{schema.unknowns:,}, inferred with the weights")] if schema.unknowns else []
    if isinstance(first.model, Network):
        facts.append(("inputs per row", " x ".join(map(str, first.probes.shape[1:]))))
    if test is not None:
        name = getattr(test, "name", "given as arrays")
        facts.append(("test rows", f"{len(test.x if hasattr(test, 'x') else test[1]):,} ({name})"))
    mute = [name for name, each in posteriors.items() if not (isinstance(each.model, Network) and each.complete)]
    if test is not None and mute:
        facts.append(("without predictions", f"{', '.join(mute)}: not a network of models, or its draws were not kept"))
    tempered = sorted({each.temperature for each in posteriors.values()} - {1.0})
    if tempered:
        facts.append(("temperature", ", ".join(f"{value:g}" for value in tempered)))
    return facts


def _models(posteriors: Mapping[str, Posterior]) -> list[tuple[str, str, tuple[Layer, ...]]]:
    """For each different model, the names of its posteriors, what it is in words, and its layers."""
    found: dict[str, tuple[list[str], Posterior]] = {}
    for name, each in posteriors.items():
        found.setdefault(each.model_in_words, ([], each))[0].append(name)
    return [
        (", ".join(names) if len(found) > 1 else "", words, layers(first)) for words, (names, first) in found.items()
    ]


def _assay(comparison: Comparison | None) -> Picture | None:
    """The distances to the reference, if there are any."""
    if comparison is None or not comparison.distances:
        return None
    words = f"Distances to {comparison.reference} on the test data; bars are two standard deviations over its halves. "
    words += (
        f"{comparison.reference} has one chain, so there is no noise floor."
        if not comparison.floor
        else f"The grey band is the noise floor: one half of the chains of {comparison.reference} against the other. A "
        "point in it is as close as that."
    )
    return picture(plots.assay(comparison), words)


def _units(test: Any, comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    if "accuracy" in comparison.columns:
        return "Log score: mean log probability of the label, in nats; higher is better."
    where = "the data's own units" if isinstance(test, Split) else "the units of y"
    return f"Scores are in {where}; log score: mean log density, higher is better; coverage is of the 90 % interval."


def _number(value: float, form: str) -> str:
    return format(value, form) if np.isfinite(value) else "infinite" if np.isinf(value) else ""


def _template() -> Any:
    import jinja2

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2")
