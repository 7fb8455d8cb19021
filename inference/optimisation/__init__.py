"""The minibatch loop of everything that optimises, and what it finds: MLE, MAP and deep ensembles.

This package is built on `target`; variational inference, Laplace and the starts of chains are built on it.
"""

__all__: list[str] = []
