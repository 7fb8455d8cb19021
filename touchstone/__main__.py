"""`python -m touchstone` is the command."""

from touchstone import app

__all__: list[str] = []

app(prog_name="touchstone")
