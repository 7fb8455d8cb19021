"""A table of house prices as a user may have it: with text, booleans, missing numbers and a column of one value."""

from __future__ import annotations

import numpy as np
import pandas as pd

__all__ = ["house_prices"]


def house_prices(rows: int = 60) -> pd.DataFrame:
    """The table; its price depends on the area and, for one colour, on the colour."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "area": rng.normal(120, 30, rows).round(1),
            "colour": rng.choice(["red", "green", "<i>blue</i>"], rows),
            "garden": rng.random(rows) < 0.5,
            "roof": "flat",
        }
    )
    table["price"] = (2 * table["area"] + 40 * (table["colour"] == "red") + rng.normal(0, 5, rows)).round(1)
    table.loc[[3, 7], "area"] = np.nan
    return table
