"""What predictions say: parts of uncertainty, points outside the data, several architectures.

Built on `inference`; figures and the report are built on it.
"""

__all__: list[str] = []
