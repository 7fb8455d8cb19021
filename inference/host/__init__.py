"""The process a run lives in: compiling and tracing, memory and cores, seeds, signals, the two worlds of ArviZ.

Knows nothing of models or methods; every other room may import it.
"""

__all__: list[str] = []
