"""What people look at: progress bars, text tables, the style of figures.

Knows nothing of models or methods; every other room may import it.
"""

__all__: list[str] = []
