"""Exact and microcanonical samplers: HMC, NUTS, MCLMC, their integrators and what they adapt.

Built on `target`; no other method imports it.
"""

__all__: list[str] = []
