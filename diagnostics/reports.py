"""The report: one HTML file with the verdict first, that opens from disk, without scripts or outside resources.

Everything that is shown is escaped, names of sites and data sets included.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diagnostics import plots
from diagnostics.comparison import Comparison, compare
from diagnostics.convergences import Convergence, convergence
from inference import Posterior, load
from inference.prediction import Classification, Regression
from models import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["report"]

_PACKAGES = ("touchstone-bnn", "jax", "numpyro", "arviz", "numpy")


@dataclass(frozen=True)
class _Picture:
    source: str
    title: str
    caption: str


@dataclass(frozen=True, eq=False)
class _Entry:
    name: str
    posterior: Posterior
    convergence: Convergence
    figures: tuple[_Picture, ...]
    call: str

    @property
    def state(self) -> str:
        """What to say beside its name, if it has not come to its end."""
        return {"interrupted": " (stopped early)", "unfinished": " (not finished)"}.get(self.posterior.ended, "")


def report(
    posterior: Posterior | str | Path | Mapping[str, Posterior | str | Path],
    test: Any = None,
    path: str | Path = "report.html",
    *,
    reference: str | None = None,
    title: str | None = None,
) -> Path:
    """Write a report about one posterior, or about several of the same model.

    Args:
        posterior: one, or several by name; or the directory of a run, which may be under way, or a saved file.
        test: a `Split` or `(x, y)` to score predictions on; without it the report is about convergence alone.
        path: of the HTML file.
        reference: the name of the posterior that the others are compared with; by default the first one made of
            chains, if there are several posteriors.
        title: of the page.

    Returns:
        The path of the file.
    """
    posteriors = _loaded(posterior)
    if not posteriors:
        raise ValueError("report needs at least one posterior, got none")
    if reference is None and len(posteriors) > 1:
        reference = next((name for name, each in posteriors.items() if each.kind == "chains"), None)
    first = next(iter(posteriors.values()))
    comparison = None
    if test is not None and isinstance(first.model, Network) and all(each.complete for each in posteriors.values()):
        comparison = compare(posteriors, test, reference)
    page = _template().render(
        title=title or f"Posterior of {'several methods' if len(posteriors) > 1 else next(iter(posteriors))}",
        about=_about(posteriors, test),
        entries=[_entry(name, each, test) for name, each in posteriors.items()],
        comparison=comparison,
        units=_units(test, comparison),
        test_name=getattr(test, "name", "test data"),
        sites=[
            {"name": name, "shape": "x".join(map(str, values.shape[2:])) or "scalar", "size": values[0, 0].size}
            for name, values in first.draws.items()
        ],
        model=first.model if isinstance(first.model, Network) else getattr(first.model, "__name__", "a NumPyro model"),
        versions=", ".join(f"{package} {version(package)}" for package in _PACKAGES),
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")
    return path


def _loaded(given: Posterior | str | Path | Mapping[str, Posterior | str | Path]) -> dict[str, Posterior]:
    if isinstance(given, Mapping):
        return {name: each if isinstance(each, Posterior) else load(each) for name, each in given.items()}
    posterior = given if isinstance(given, Posterior) else load(given)
    return {posterior.method.name: posterior}


def _entry(name: str, posterior: Posterior, test: Any) -> _Entry:
    judged = convergence(posterior)
    figures = []
    if test is not None and isinstance(posterior.model, Network) and posterior.complete:
        x, y = test
        prediction = posterior.predict(x)
        targets = test if hasattr(test, "restore") else y
        if isinstance(prediction, Classification):
            caption = "Dots on the line are honest probabilities; larger dots hold more points."
            figures.append(_picture(plots.reliability(prediction, targets), caption))
        elif isinstance(prediction, Regression):
            caption = "A point on the line was predicted exactly; nine in ten intervals should reach the line."
            figures.append(_picture(plots.observed_and_predicted(prediction, targets), caption))
    if judged.weights is not None or judged.functions is not None:
        caption = "Left of the dashed line the chains agree; predictions need it of the functions only."
        figures.append(_picture(plots.mixing(judged.weights, judged.functions), caption))
        if judged.functions is not None:
            figures.append(_picture(plots.traces(posterior), "Chains that agree look alike, without drift."))
    if judged.bias is not None:
        caption = f"Both should come to the dashed line. {judged.bias}.".replace("temperature", "Temperature", 1)
        figures.append(_picture(plots.temperatures(posterior), caption))
    if posterior.curves:
        figures.append(_picture(plots.losses(posterior), "It should be flat at the end; the first tenth is left out."))
    options = "".join(f", {key}={value!r}" for key, value in posterior.method.options().items() if value is not None)
    tempered = f", temperature={posterior.temperature}, tempering={posterior.tempering!r}"
    seed = (
        posterior.seed
        if isinstance(posterior.seed, int)
        else f"jax.random.wrap_key_data(jnp.array({posterior.seed}, 'uint32'))"
    )
    call = f"inference.run(model, ..., method={posterior.method.name!r}, seed={seed}{options}{tempered})"
    return _Entry(name, posterior, judged, tuple(figures), call)


def _about(posteriors: Mapping[str, Posterior], test: Any) -> str:
    seconds = sum(posterior.cost.seconds for posterior in posteriors.values())
    first = next(iter(posteriors.values()))
    weights = sum(values[0, 0].size for name, values in first.draws.items() if name not in first.deterministic)
    words = f"{weights:,} unknowns; {', '.join(posteriors)}; {seconds:.0f} seconds in all"
    return words + (
        f"; judged on {len(test[1] if isinstance(test, tuple | list) else test):,} test points." if test else "."
    )


def _units(test: Any, comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    if "accuracy" in comparison.columns:
        return "Log score: mean log probability, in nats; higher is better."
    where = "the data's own units" if hasattr(test, "restore") else "the units of y"
    return f"Scores are in {where}; log score: mean log density, higher is better; coverage is of the 90 % interval."


def _picture(figure: Figure, caption: str) -> _Picture:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    title = figure.axes[0].get_title(loc="left")
    return _Picture("data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode(), title, caption)


def _template() -> Any:
    import jinja2

    folder = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2")
