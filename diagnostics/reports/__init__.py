"""The report: one HTML page, its pictures and tables.

Built on all other rooms; nothing imports it but the door.
"""

__all__: list[str] = []
