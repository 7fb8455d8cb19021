"""The one loop that runs every method: compiled programs, chains in threads, where draws are put.

Built on `results` and on what a method is, never on a particular method.
"""

__all__: list[str] = []
