"""Data sets with train and test parts that know their way back to the data's own units."""

from data.catalogue import at_hand, load, names
from data.datasets import Dataset, Scaler, Split

__all__ = ["Dataset", "Scaler", "Split", "at_hand", "load", "names"]
