"""Runs that outlive their process: arrays that fill up, manifests, states as bytes, the directory of a run.

Built on `engine`; a reader needs NumPy alone.
"""

__all__: list[str] = []
