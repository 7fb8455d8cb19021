"""A run of the command as a few lines of Python, so that a user can leave the command behind."""

from __future__ import annotations

from typing import Any

import models
from inference.catalogue import METHODS
from touchstone.choices import Chosen

__all__ = ["in_python"]


def in_python(
    chosen: Chosen,
    split: int,
    model: models.Network,
    methods: dict[str, dict[str, Any]],
    seed: int,
    temperature: float,
    fan_in: bool,
) -> str:
    """The lines that make the same posteriors, bit for bit."""
    behind: Any = (
        model.architecture.network if isinstance(model.architecture, models.TableInputs) else model.architecture
    )
    prior: Any = model.prior
    flat = chosen.dataset.x.ndim > 2
    parts = (
        f"(part.flat() for part in {chosen.call}.split(seed={split}))" if flat else f"{chosen.call}.split(seed={split})"
    )
    likelihood = type(model.likelihood).__name__
    classes = f"{model.likelihood.classes}" if isinstance(model.likelihood, models.Categorical) else ""
    lines = [
        "import data, models, inference, diagnostics",
        "",
        f"train, test = {parts}",
        "model = models.mlp(",
        f"    hidden={behind.hidden!r},",
        f"    activation={behind.activation!r},",
        f"    prior=models.Normal({prior.scale!r}{', fan_in=True' if fan_in else ''}),",
        f"    likelihood=models.{likelihood}({classes}),",
        ")",
    ]
    if behind is not model.architecture:
        lines.append("model = models.for_table(model, train)")
    further = f", seed={seed}" + (f", temperature={temperature!r}" if temperature != 1 else "")
    for name, options in methods.items():
        said = "".join(f", {key}={value!r}" for key, value in options.items())
        which = "posterior" if len(methods) == 1 else name
        lines.append(f"{which} = inference.run(model, train, method={name!r}{further}{said})")
    if len(methods) == 1:
        lines.append("print(diagnostics.scores(posterior.predict(test), test), diagnostics.convergence(posterior))")
        lines.append('diagnostics.report(posterior, test, path="report.html")')
    else:
        names = ", ".join(f'"{name}": {name}' for name in methods)
        chains = next((f", reference={name!r}" for name in methods if METHODS[name].kind == "chains"), "")
        lines.append(f"print(diagnostics.compare({{{names}}}, test{chains}))")
        lines.append(f'diagnostics.report({{{names}}}, test, path="report.html")')
    return "\n".join(lines)
