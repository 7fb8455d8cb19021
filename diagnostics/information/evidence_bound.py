r"""The evidence lower bound of a guide q, and its pieces.

At temperature 1, with w the sites of the model and D the data,

    log p(D) = ELBO(q) + KL(q || p(w | D))
    ELBO(q)  = E_q[log p(D | w)] + E_q[log p(w)] + H(q) = E_q[log p(D | w)] - KL(q || p(w))

All densities are over the sites themselves. A guide is fitted in unconstrained coordinates u, w = t(u), where its log
density is log q(u); over the sites it is smaller by log |det dt/du|, and so the entropy is larger by the mean of that.

At another temperature T there is no evidence. The bound is on log Z, with Z the normaliser of the tempered posterior:

    log Z   = ELBO(q) + KL(q || tempered posterior)
    ELBO(q) = (E_q[log p(D | w)] + E_q[log p(w)]) / T + H(q)    tempering="posterior",  Z = int (p(D | w) p(w))^(1/T) dw
    ELBO(q) = E_q[log p(D | w)] / T + E_q[log p(w)] + H(q)      tempering="likelihood", Z = int p(D | w)^(1/T) p(w) dw

The pieces are the same at every temperature: none is divided by T, and the KL divergence is from the untempered prior.

Everything is an average over the draws of the posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from diagnostics.information.estimate import Estimate, average
from inference import Posterior
from inference.host.compiling import tracing
from inference.target.binding import bind
from inference.target.density import Data, Target
from inference.target.unstable import unconstrained
from models import Network

__all__ = ["Elbo", "elbo"]


@dataclass(frozen=True, eq=False)
class Elbo(Estimate):
    """The evidence lower bound, in nats: a value with its Monte Carlo error, and its pieces, each with its own error.

    Attributes:
        value: the bound.
        error: its Monte Carlo standard error. The pieces depend on each other, so it is not the sum of their errors.
        expected_log_likelihood: E_q[log p(D | w)].
        expected_log_prior: E_q[log p(w)].
        entropy: H(q), the entropy of the guide.
        kl: KL(q || p(w)), the divergence of the guide from the prior.
    """

    expected_log_likelihood: Estimate
    expected_log_prior: Estimate
    entropy: Estimate
    kl: Estimate


def elbo(posterior: Posterior, *args: Any) -> Elbo:
    """The evidence lower bound of a guide, from its draws.

    Args:
        posterior: the posterior by `method="svi"` or "laplace".
        args: for a model that is not a network, its arguments as they were given to `run`.

    Raises:
        ValueError: if the posterior is not a guide, or its draws have no log density under the guide.
    """
    _check(posterior, args)
    statistics = {name: values.reshape(-1).astype(np.float64) for name, values in posterior.statistics.items()}
    log_density, log_guide = statistics["lp"], statistics["guide_log_density"]
    draws = {
        name: values.reshape(-1, *values.shape[2:])
        for name, values in posterior.draws.items()
        if name not in posterior.deterministic
    }
    with tracing(posterior.method.precision):
        bound = bind(posterior.model, args or _one_row(posterior), posterior.temperature, posterior.tempering)
        terms = _without_data(bound.target, bound.data, draws)
    log_prior, log_jacobian, tempered = (np.asarray(term, np.float64) for term in terms)
    log_likelihood = posterior.temperature * (log_density - log_jacobian - tempered)
    log_guide_of_sites = log_guide - log_jacobian
    value = average(log_density - log_guide)
    return Elbo(
        value.value,
        value.error,
        expected_log_likelihood=average(log_likelihood),
        expected_log_prior=average(log_prior),
        entropy=average(-log_guide_of_sites),
        kl=average(log_guide_of_sites - log_prior),
    )


@partial(jax.jit, static_argnames="target")
def _without_data(target: Target, data: Data, draws: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Log prior, log-Jacobian, and the tempered log density without the likelihood; none depends on the data's rows."""

    def one(draw: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array, jax.Array]:
        position = unconstrained(target.model, target.arguments.fill(data.arrays), draw)
        terms = target.terms_at_once(position, data)
        nothing = terms._replace(log_likelihood=jnp.zeros_like(terms.log_likelihood))
        return terms.log_prior, terms.log_jacobian, target.tempered(nothing, data)

    return lax.map(one, draws)


def _one_row(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """One row of a network's data, which is enough to trace its prior."""
    return posterior.probes[:1], posterior.observed["y"][:1]


def _check(posterior: Posterior, args: tuple[Any, ...]) -> None:
    if posterior.kind != "guide":
        raise ValueError(
            f'elbo is that of a guide, and method="{posterior.method.name}" gives a posterior of kind '
            f'"{posterior.kind}"; run method="svi" or "laplace"'
        )
    if not posterior.statistics:
        raise ValueError(
            "elbo needs the log densities of the draws, which these have lost when they were changed, as by pruning; "
            "give it the posterior as it was"
        )
    if "guide_log_density" not in posterior.statistics:
        raise ValueError(
            "elbo needs a guide with a density over all sites, and this one is singular: some sites are points, or "
            'weights without noise; use guide="gaussian", dropout with sigma above 0 and others="gaussian", or '
            'structure="full" or "diagonal" for laplace'
        )
    if "prior_scale_factor" in posterior.guide:
        factor = float(posterior.guide["prior_scale_factor"])
        raise ValueError(
            'elbo needs the prior that the model has, and hyperparameters="evidence" has multiplied its standard '
            f'deviations by {factor:.3g}; do so in the model, and run with hyperparameters="given"'
        )
    if posterior.shape[0] * posterior.shape[1] < 2:
        raise ValueError("elbo is an average over draws and needs at least 2 of them, got 1; run with draws=1000")
    if not isinstance(posterior.model, Network) and not args:
        raise ValueError("elbo needs the arguments of a model that is not a network: elbo(posterior, *args) as in run")
