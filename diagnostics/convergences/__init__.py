"""Can the draws be believed? The verdict on chains, guides and points, and what to do next.

Built on `inference`; comparisons, figures and the report are built on it.
"""

__all__: list[str] = []
