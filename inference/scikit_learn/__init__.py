"""Posteriors as scikit-learn estimators, for pipelines, cross-validation and searches.

Scikit-learn takes most of a second to import, so nothing here is imported until a user asks for an estimator.
"""

__all__: list[str] = []
