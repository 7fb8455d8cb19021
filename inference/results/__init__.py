"""What a run gives back: the posterior, its predictions and scores, functions at probes, files.

Built on `target`; `diagnostics` is built on it.
"""

__all__: list[str] = []
