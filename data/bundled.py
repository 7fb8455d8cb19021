"""Real data that ship with scikit-learn and need no download.

`wine_cultivars` is scikit-learn's `load_wine`, the chemical analysis of three cultivars; the plain name "wine" is kept
for UCI's red wine quality, the regression set of the published tables.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from data.datasets import Dataset

__all__ = ["breast_cancer", "diabetes", "digits", "wine_cultivars"]


def diabetes() -> Dataset:
    """Disease progression one year after baseline, 442 patients, 10 inputs (Efron et al. 2004)."""
    return _bundle("load_diabetes", "diabetes", classes=None, scaled=False)


def digits() -> Dataset:
    """Handwritten digits of 8x8 pixels, 1,797 images, 10 classes (UCI optical recognition of digits, test part)."""
    return replace(_bundle("load_digits", "digits", classes=10), picture=(8, 8))


def breast_cancer() -> Dataset:
    """Malignant or benign from cell images, 569 patients, 30 inputs, 2 classes (UCI Wisconsin diagnostic)."""
    return _bundle("load_breast_cancer", "breast_cancer", classes=2)


def wine_cultivars() -> Dataset:
    """Which of three cultivars a wine comes from, 178 wines, 13 inputs (UCI wine recognition)."""
    return _bundle("load_wine", "wine_cultivars", classes=3)


def _bundle(loader: str, name: str, classes: int | None, **options: bool) -> Dataset:
    import sklearn.datasets  # takes most of a second to import, so only where it is needed

    bunch = getattr(sklearn.datasets, loader)(**options)
    target = bunch.target.astype(np.float64 if classes is None else np.int32)
    columns = tuple(str(column) for column in bunch.feature_names)
    return Dataset(name, bunch.data.astype(np.float64), target, classes, columns, f"scikit-learn's {loader}")
