"""What people look at: progress, tables, what notebooks show of a record, the style of figures.

Knows nothing of models or methods; every other room may import it.
"""

__all__: list[str] = []
