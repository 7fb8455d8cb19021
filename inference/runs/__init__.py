"""A run from the call to the posterior: starts, pilot, chains, stopping, many fits side by side, resuming.

Built on all methods and on `engine` and `disk`.
"""

__all__: list[str] = []
