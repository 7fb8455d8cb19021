"""Every method by its name."""

from __future__ import annotations

from typing import Any

from inference.laplace.approximation import Laplace
from inference.mcmc.hmc import HMC
from inference.mcmc.mclmc import MCLMC
from inference.mcmc.nuts import NUTS
from inference.methods import Method
from inference.optimisation.points import MAP, MLE, Ensemble
from inference.sgmcmc.sgld_sghmc import SGHMC, SGLD
from inference.variational.svi import SVI
from models.validation import one_of

__all__ = ["METHODS", "chosen_method"]

METHODS: dict[str, type[Method]] = {
    method.name: method for method in (MLE, MAP, Laplace, Ensemble, SVI, SGLD, SGHMC, HMC, NUTS, MCLMC)
}
"""Every method by its name."""


def chosen_method(method: str | Method, options: dict[str, Any]) -> Method:
    """The method's record: made from a name and `options`, or `method` itself if it is a record already."""
    if isinstance(method, Method):
        if options:
            raise ValueError(f"method is a record with its own options, so {next(iter(options))!r} must be set on it")
        return method
    if not isinstance(method, str):
        raise TypeError(f"method must be a name or a record such as inference.NUTS(), got {type(method).__name__}")
    one_of("method", method, METHODS)
    known = METHODS[method].takes()
    for option in options:
        if option not in known:
            others = [name for name, other in METHODS.items() if option in other.takes()]
            whose = f"it is an option of {', '.join(others)}; " if others else ""
            if option in ("x", "y", "data"):
                whose = "data are given by position, run(model, x, y, ...); "
            raise ValueError(f"{option!r} is not an option of {method}; {whose}{method} takes {', '.join(known)}")
    return METHODS[method](**options)
