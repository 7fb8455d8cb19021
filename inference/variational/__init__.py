"""Variational inference: SVI, its guides, and how a step estimates their free energy.

This package is built on `target` and `optimisation`; no other family of methods imports it.
"""

__all__: list[str] = []
