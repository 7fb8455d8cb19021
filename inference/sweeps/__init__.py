"""One model over the values of one thing: the runs, what is varied, what comes out.

Built on `runs`.
"""

__all__: list[str] = []
