"""Variational inference: SVI, its guides, and how a step estimates their free energy.

Built on `target` and `optimisation`; no other method imports it.
"""

__all__: list[str] = []
