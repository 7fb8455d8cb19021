"""A model and its data as one log density: arguments, checks, remarks on the data, plates, rows, prior scales.

The only place that knows temperature and minibatch scale. Methods are built on it; it imports no method.
"""

__all__: list[str] = []
