"""An empty figure in the style that all figures share; matplotlib is imported only where one is drawn."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "chart"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe & Ito


def chart(titles: list[str], columns: int = 1, size: tuple[float, float] = (5.4, 3.5)) -> tuple[Figure, list[Any]]:
    """A figure with a panel per title, each of `size` inches; a notebook displays it as a picture."""
    from matplotlib.figure import Figure  # takes a while to import, so only where a figure is drawn

    class Chart(Figure):
        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

    columns = min(columns, len(titles))
    rows = -(-len(titles) // columns)
    figure = Chart(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    panels = [figure.add_subplot(rows, columns, i + 1) for i in range(len(titles))]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=10, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels
