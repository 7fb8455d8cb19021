"""The networks one can name: perceptrons, networks for images, networks for sequences of tokens.

An architecture samples its weights from a prior and applies them to a batch. Nothing here imports inference.
"""

__all__: list[str] = []
