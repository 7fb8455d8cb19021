"""A normal posterior and the covariance that stochastic gradient samplers have on it.

All rows have the same inputs, so the Hessian and the covariance of a minibatch's gradient are the same everywhere.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov

import models
from inference.target.binding import Bound, bind

__all__ = ["NOISE", "PRIOR", "ROWS", "NormalTarget"]

ROWS, NOISE, PRIOR = 60, 2.0, 0.7
INPUT = np.array([1.0, 0.5, -1.0])  # with the bias first


class NormalTarget:
    """A normal posterior and everything about it."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self.x = np.broadcast_to(INPUT[1:], (ROWS, 2)).astype(np.float32)
        self.y = (0.5 + 3 * generator.standard_t(3, ROWS)).astype(np.float32)
        self.model = models.linear(models.Normal(PRIOR), models.Gaussian(scale=NOISE))
        self.hessian = ROWS * np.outer(INPUT, INPUT) / NOISE**2 + np.eye(3) / PRIOR**2
        self.mean = np.linalg.solve(self.hessian, INPUT * self.y.astype(float).sum() / NOISE**2)

    def gradient_noise(self, batch: int | None) -> np.ndarray:
        """V, of rows drawn without replacement."""
        if batch is None:
            return np.zeros((3, 3))
        variance = ROWS**2 * self.y.astype(float).var(ddof=1) / batch * (1 - batch / ROWS)
        return variance * np.outer(INPUT, INPUT) / NOISE**4

    def stationary(self, e: float, T: float, batch: int | None, a: float = 1.0, G: np.ndarray | None = None):
        """The covariance of w from that of (w, r), for r <- (1 - a) r + e G g + sqrt(2 a e T G) n and w <- w + r."""
        G = np.eye(3) if G is None else np.diag(G)
        one = np.eye(3)
        kick = np.block([[one - e * G @ self.hessian, (1 - a) * one], [-e * G @ self.hessian, (1 - a) * one]])
        noise = e**2 * G @ self.gradient_noise(batch) @ G + 2 * a * e * T * G
        return solve_discrete_lyapunov(kick, np.kron(np.ones((2, 2)), noise))[:3, :3]

    def bound(self, T: float, rows: int = ROWS) -> Bound:
        """The model with its data, or some of them, at a temperature."""
        bound = bind(self.model, (self.x[:rows], self.y[:rows]), T, "posterior")
        return bound._replace(data=jax.tree.map(jnp.asarray, bound.data))

    def start(self) -> dict[str, jax.Array]:
        """The position of its mean."""
        mean = jnp.asarray(self.mean, jnp.float32)
        return {"output.bias": mean[:1], "output.weight": mean[1:, None]}
