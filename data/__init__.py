"""Data sets with train and test parts that know their way back to the data's own units."""

from data.catalogue import load, names
from data.datasets import Dataset, Scaler, Split

__all__ = ["Dataset", "Scaler", "Split", "load", "names"]
