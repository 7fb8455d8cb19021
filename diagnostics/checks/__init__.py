"""Does the model fit? Calibration, posterior and prior predictive checks, leave-one-out.

Built on `inference`; figures and the report are built on it.
"""

__all__: list[str] = []
