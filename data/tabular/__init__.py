"""Tables as people have them: reading them, what their columns are, and the schema by which they become numbers.

`data.table` makes a `Dataset` of a table (`building.py`). What is known of the columns is a `Schema` (`schema.py`),
which a posterior keeps, so that a new table is encoded in the same way or refused by the name of the column.
"""

__all__: list[str] = []
