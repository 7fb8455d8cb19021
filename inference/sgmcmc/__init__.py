"""Stochastic-gradient samplers: SGLD and SGHMC, their step and its size, and temperatures that show their bias.

This package is built on `target`; no other family of methods imports it.
"""

__all__: list[str] = []
