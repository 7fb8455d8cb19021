"""Data sets with train and test parts that know their way back to the data's own units."""

from data.catalogue import at_hand, load, names
from data.datasets import Dataset, Scaler, Split
from data.origins import Origin
from data.tabular.building import Table, table
from data.tabular.schema import Schema

__all__ = ["Dataset", "Origin", "Scaler", "Schema", "Split", "Table", "at_hand", "load", "names", "table"]
