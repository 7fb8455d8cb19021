"""Distributions by SciPy, and integrals of their densities, that several files compare with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpyro.distributions as dist
import scipy.stats
from scipy.integrate import quad

__all__ = ["DRAWS", "by_scipy", "integral"]

DRAWS = 1000  # in all tests: programs are compiled for each number of them


def by_scipy(distribution: Any) -> Any:
    """The same by SciPy."""
    made = {
        dist.Normal: lambda d: scipy.stats.norm(d.loc, d.scale),
        dist.Laplace: lambda d: scipy.stats.laplace(d.loc, d.scale),
        dist.Logistic: lambda d: scipy.stats.logistic(d.loc, d.scale),
        dist.Beta: lambda d: scipy.stats.beta(d.concentration1, d.concentration0),
        dist.Gamma: lambda d: scipy.stats.gamma(d.concentration, scale=1 / d.rate),
        dist.InverseGamma: lambda d: scipy.stats.invgamma(d.concentration, scale=d.rate),
        dist.Weibull: lambda d: scipy.stats.weibull_min(d.concentration, scale=d.scale),
        dist.StudentT: lambda d: scipy.stats.t(d.df, d.loc, d.scale),
        dist.LogNormal: lambda d: scipy.stats.lognorm(d.scale, scale=np.exp(d.loc)),
        dist.Uniform: lambda d: scipy.stats.uniform(d.low, d.high - d.low),
        dist.Pareto: lambda d: scipy.stats.pareto(d.alpha, scale=d.scale),
        dist.Levy: lambda d: scipy.stats.levy(d.loc, d.scale),
        dist.GeometricProbs: lambda d: scipy.stats.geom(d.probs, loc=-1),
        dist.Dirichlet: lambda d: scipy.stats.dirichlet(np.asarray(d.concentration)),
        dist.MultivariateNormal: lambda d: scipy.stats.multivariate_normal(d.loc, d.covariance_matrix),
    }
    return made[type(distribution)](distribution)


def integral(p: Any, q: Any, term: Any) -> float:
    """The integral of a term of two densities, over where either is."""
    lower, upper = min(p.ppf(1e-14), q.ppf(1e-14)), max(p.isf(1e-14), q.isf(1e-14))
    points = [float(d.ppf(level)) for d in (p, q) for level in (0.01, 0.25, 0.5, 0.75, 0.99)]
    return quad(lambda x: term(p.pdf(x), q.pdf(x)), lower, upper, points=sorted(points), limit=400)[0]
