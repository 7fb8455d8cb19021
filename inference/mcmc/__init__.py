"""Exact and microcanonical samplers: HMC, NUTS, MCLMC, their integrators and what they adapt.

This package is built on `target`; no other family of methods imports it.
"""

__all__: list[str] = []
