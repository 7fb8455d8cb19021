"""Notebooks that teach, and what runs them: `make notebooks` stores their outputs anew."""

__all__: list[str] = []
