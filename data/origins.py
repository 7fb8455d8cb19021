"""Where a split came from, in a few words that a file can hold, so that it can be made again.

A posterior keeps the origin of the split that it was run on. So a report or a comparison finds its test rows by itself,
and a new table is encoded by the schema of the one that the network was trained on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.tabular.reading import digest
from data.tabular.schema import Schema

if TYPE_CHECKING:
    from data.datasets import Split

__all__ = ["Origin"]

_PLAIN = bool | int | float | str | None


@dataclass(frozen=True)
class Origin:
    """Where a split came from.

    Attributes:
        name: the name that `data.load` knows the set by, or the name of the table.
        options: the options of `data.load` or `data.table`, by name.
        path: the file of a table; empty for a data frame, which is not kept, and for the sets of `data.load`.
        sha256: the SHA-256 of that file.
        seed: the seed of the split.
        test: the fraction of rows in the test part; None for the default.
        index: the number of a standard split; None for a random one.
        whole: whether all rows were taken, so that there is no test part.
        schema: what the columns of a table are; None for the sets of `data.load`.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    path: str = ""
    sha256: str = ""
    seed: int = 0
    test: float | None = None
    index: int | None = None
    whole: bool = False
    schema: Schema | None = None

    @staticmethod
    def of_set(name: str, options: dict[str, Any]) -> Origin | None:
        """The origin of a set of `data.load`; None if an option is not a plain value, which a file can't hold."""
        plain = {key: getattr(value, "item", lambda value=value: value)() for key, value in options.items()}
        if not all(isinstance(value, _PLAIN) for value in plain.values()):
            return None
        return Origin(name, tuple(plain.items()))

    def splits(self) -> tuple[Split, Split]:
        """The training and the test part, made again.

        Raises:
            FileNotFoundError: if the file of a table is not there any more.
            ValueError: if they can't be made again: the table was a data frame, its file has changed, or there is no
                test part.
        """
        from data.catalogue import load  # these make data sets, which hold origins
        from data.tabular.building import table

        if self.whole:
            raise ValueError(f"the run on '{self.name}' was on all of its rows, so it has no test rows; give some")
        how = {"seed": self.seed, "test": self.test, "index": self.index}
        if self.schema is None:
            return load(self.name, **dict(self.options)).split(**how)  # type: ignore[arg-type]
        if not self.path:
            raise ValueError(f"'{self.name}' was a data frame, which is not kept with the run; give the test rows")
        if not Path(self.path).exists():
            raise FileNotFoundError(f"the run was on the table {self.path}, which is not there; give the data")
        if digest(Path(self.path)) != self.sha256:
            raise ValueError(f"the table {self.path} is not what it was when the run was made; give the data")
        return table(self.path, **dict(self.options)).split(**how)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """The origin as JSON values."""
        return {**asdict(replace(self, schema=None)), "schema": None if self.schema is None else self.schema.to_json()}

    @classmethod
    def from_json(cls, values: Any) -> Origin:
        """The origin that `to_json` wrote.

        Raises:
            ValueError: if it did not write `values`.
        """
        try:
            options = tuple(
                (str(key), tuple(value) if isinstance(value, list) else value) for key, value in values["options"]
            )
            fields: dict[str, Any] = {key: str(values[key]) for key in ("name", "path", "sha256")}
            fields |= {"seed": int(values["seed"]), "whole": bool(values["whole"])}
            fields["test"] = None if values["test"] is None else float(values["test"])
            fields["index"] = None if values["index"] is None else int(values["index"])
            schema = None if values["schema"] is None else Schema.from_json(values["schema"])
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"the origin of the data can't be read, or it is damaged: {error}") from error
        return cls(**fields, options=options, schema=schema)
