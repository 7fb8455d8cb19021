"""Stochastic-gradient samplers: SGLD and SGHMC, their step and its size, and temperatures that show their bias.

Built on `target`; no other method imports it.
"""

__all__: list[str] = []
