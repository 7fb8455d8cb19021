"""What a run gives back: the posterior, its predictions and scores, functions at probes, files.

This package is built on `target`; `diagnostics` is built on it.
"""

__all__: list[str] = []
