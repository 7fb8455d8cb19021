"""Toy sets drawn from a known process, each the one that its paper or textbook uses.

Every function takes the number of points `n` and a `seed`, and gives the same set for the same arguments.
"""

from __future__ import annotations

import numpy as np

from data.datasets import Dataset

__all__ = ["backprop_curve", "cubic", "gap", "heteroscedastic_sine", "linear", "moons"]


def gap(n: int = 80, seed: int = 0) -> Dataset:
    """One-dimensional regression with nothing observed in the middle.

    x is uniform on [-4, -1.5] and [1.5, 4]; y = sin(x) + x / 4 + N(0, 0.1^2). A posterior worth having is unsure on
    (-1.5, 1.5).
    """
    generator = np.random.default_rng(seed)
    x = generator.uniform(1.5, 4.0, n) * np.where(np.arange(n) % 2, 1.0, -1.0)
    y = np.sin(x) + x / 4 + generator.normal(0, 0.1, n)
    return Dataset("gap", x[:, None], y, inputs=("x",), source="sin(x) + x / 4 + N(0, 0.1^2), no x in (-1.5, 1.5)")


def heteroscedastic_sine(n: int = 200, seed: int = 0) -> Dataset:
    """A sine whose noise grows along x: x uniform on [0, 1], y = sin(2 pi x) + N(0, (0.05 + 0.5 x)^2)."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 1, n)
    y = np.sin(2 * np.pi * x) + (0.05 + 0.5 * x) * generator.normal(size=n)
    return Dataset("heteroscedastic_sine", x[:, None], y, inputs=("x",), source="sin(2 pi x) + N(0, (0.05 + 0.5 x)^2)")


def backprop_curve(n: int = 300, seed: int = 0) -> Dataset:
    """The regression curve of Bayes by Backprop (Blundell et al. 2015, section 5.2).

    y = x + 0.3 sin(2 pi (x + e)) + 0.3 sin(4 pi (x + e)) + e with e ~ N(0, 0.02), x uniform on [0, 0.5]. The paper does
    not say whether 0.02 is a variance or a standard deviation; here it is the standard deviation.
    """
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 0.5, n)
    e = generator.normal(0, 0.02, n)
    y = x + 0.3 * np.sin(2 * np.pi * (x + e)) + 0.3 * np.sin(4 * np.pi * (x + e)) + e
    return Dataset("backprop_curve", x[:, None], y, inputs=("x",), source="Blundell et al. 2015, section 5.2")


def cubic(n: int = 20, seed: int = 0) -> Dataset:
    """The cubic of Hernandez-Lobato & Adams 2015: x uniform on [-4, 4], y = x^3 + e, e ~ N(0, 9), variance 9."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(-4, 4, n)
    y = x**3 + generator.normal(0, 3, n)
    return Dataset("cubic", x[:, None], y, inputs=("x",), source="x^3 + N(0, 9), Hernandez-Lobato & Adams 2015")


def moons(n: int = 200, seed: int = 0, noise: float = 0.2) -> Dataset:
    """Two interleaved half circles of radius 1 with N(0, noise^2) on both coordinates; two classes of equal size."""
    generator = np.random.default_rng(seed)
    label = np.arange(n) % 2
    angle = generator.uniform(0, np.pi, n)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    x = np.where(label[:, None] == 0, upper, lower) + generator.normal(0, noise, (n, 2))
    return Dataset("moons", x, label.astype(np.int32), 2, ("x1", "x2"), f"two half circles with N(0, {noise}^2)")


def linear(n: int = 60, seed: int = 0, inputs: int = 3, noise: float = 0.5) -> Dataset:
    """Conjugate linear data: y = x w + b + N(0, noise^2), with correlated inputs, w and b drawn from N(0, 1).

    With `models.linear`, a Normal prior and the noise known, the posterior is Gaussian in closed form. Neighbouring
    inputs have correlation 0.6, so that a mean-field approximation is visibly too narrow.
    """
    generator = np.random.default_rng(seed)
    covariance = 0.6 ** np.abs(np.subtract.outer(np.arange(inputs), np.arange(inputs)))
    x = generator.normal(size=(n, inputs)) @ np.linalg.cholesky(covariance).T
    weights, bias = generator.normal(size=inputs), generator.normal()
    y = x @ weights + bias + generator.normal(0, noise, n)
    columns = tuple(f"x{i + 1}" for i in range(inputs))
    return Dataset("linear", x, y, inputs=columns, source=f"x w + b + N(0, {noise}^2)")
