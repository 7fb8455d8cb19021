"""Reading and writing tables: pandas data frames, frames of other libraries, CSV and Parquet files.

Nothing is decided about columns here, except that "?" and what pandas takes for missing are missing.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import warnings
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from data.files import replacing

__all__ = ["LARGEST", "as_frame", "digest", "is_frame", "read", "write"]

LARGEST = 10**9
"""The most bytes, unpacked, that a file may have."""

_PACKED = ".gz"
_CELL = 8  # bytes of a number
_WRITTEN = (".csv", ".parquet", ".pq")


def is_frame(given: Any) -> bool:
    """Whether `given` is a data frame, of pandas or of another library."""
    return hasattr(given, "__dataframe__") or hasattr(given, "__arrow_c_stream__")


def as_frame(given: Any) -> Any:
    """A pandas data frame of what the user has: a frame, a mapping from names to columns, or a path.

    Raises:
        TypeError: if `given` is none of these.
        ValueError: if the file can't be read as a table.
    """
    import pandas  # takes a third of a second to import, so only where it is needed

    if isinstance(given, str | Path):
        return read(Path(given))
    if isinstance(given, pandas.Series):
        raise TypeError("a table must be a data frame, got one pandas Series; write series.to_frame()")
    if isinstance(given, pandas.DataFrame):
        frame = given
    elif hasattr(given, "__arrow_c_stream__") and hasattr(pandas.DataFrame, "from_arrow"):
        frame = _from_arrow(given)
    elif hasattr(given, "__dataframe__"):
        with warnings.catch_warnings():  # pandas announces the end of the protocol, and has nothing in its place yet
            warnings.filterwarnings("ignore", message="The Dataframe Interchange Protocol")
            frame = pandas.api.interchange.from_dataframe(given)
    elif isinstance(given, Mapping):
        frame = pandas.DataFrame(dict(given))
    else:
        raise TypeError(
            "a table must be a pandas data frame or one that pandas can read, a mapping from names to columns or a "
            f"path, got {type(given).__name__}"
        )
    return _named(frame)


def _from_arrow(given: Any) -> Any:
    """A pandas data frame of a frame that offers itself as Arrow's stream of columns, as polars and pyarrow do."""
    import pandas

    try:
        return pandas.DataFrame.from_arrow(given)  # which pandas has from version 3 on
    except ImportError as error:
        what = type(given).__name__
        raise ValueError(f"a {what} needs pyarrow (pip install pyarrow) to be read; or give columns by name") from error
    except ValueError as error:  # a single column offers itself in the same way
        raise TypeError(f"a table must be a data frame, got {type(given).__name__}: {error}") from error


def read(path: Path, as_text: bool = False) -> Any:
    """The table in a CSV or Parquet file; `.gz` is unpacked.

    Args:
        path: the file.
        as_text: give the cells of a CSV file as they are written, for a copy of the table.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is too large, is not a table, or needs a package that is not installed.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; a table is a CSV or Parquet file")
    if path.stat().st_size > LARGEST:
        raise ValueError(
            f"{path} has {path.stat().st_size / 1e9:.1f} GB, and a table may have {LARGEST / 1e9:.0f} GB; take a "
            "sample of its rows"
        )
    suffix = _suffix(path)
    return _named(_parquet(path) if suffix in (".parquet", ".pq") else _csv(path, as_text))


def _suffix(path: Path) -> str:
    return Path(path.name.removesuffix(_PACKED)).suffix.lower()


def _csv(path: Path, as_text: bool) -> Any:
    import pandas

    try:
        with gzip.open(path, "rb") if path.name.endswith(_PACKED) else open(path, "rb") as file:
            contents = file.read(LARGEST + 1)
        if len(contents) > LARGEST:
            raise ValueError(f"unpacked it has more than {LARGEST / 1e9:.0f} GB; take a sample of its rows")
        how: dict[str, Any] = {"sep": _separator(contents), "low_memory": False}
        _check_names(pandas.read_csv(io.BytesIO(contents), header=None, nrows=1, dtype=str, **how).iloc[0])
        cells = {"dtype": str, "keep_default_na": False} if as_text else {"na_values": ["?"]}
        with warnings.catch_warnings():  # which pandas gives where it leaves values out
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            return pandas.read_csv(io.BytesIO(contents), index_col=False, **how, **cells)
    except pandas.errors.ParserWarning as error:
        raise ValueError(f"{path}: its rows have more values than there are names of columns; name each") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} can't be read as CSV: it is not text in UTF-8; save it as CSV UTF-8") from error
    except pandas.errors.EmptyDataError as error:
        raise ValueError(f"{path} is empty: a table has a line with the names of its columns, then rows") from error
    except (ValueError, EOFError, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} can't be read as CSV: {str(error).strip()}") from error


def _check_names(names: Any) -> None:
    """Raise ValueError if a name in the first line of a CSV file is there twice, which pandas would change."""
    twice = names[names.notna() & names.duplicated()]
    if len(twice):
        raise ValueError(f"it has several columns named {twice.iloc[0]!r}; rename them")


def _separator(contents: bytes) -> str:
    """The comma, the semicolon or the tab, whichever the line of names has most of."""
    first = contents.lstrip().split(b"\n", 1)[0]
    return max(",;\t", key=lambda separator: first.count(separator.encode()))


def _parquet(path: Path) -> Any:
    import pandas

    if path.name.endswith(_PACKED):
        raise ValueError(f"{path}: Parquet files are packed inside already; unpack it first")
    try:
        from pyarrow.parquet import read_metadata

        known = read_metadata(path)
        if known.num_rows * known.num_columns * _CELL > LARGEST:  # a column of one value takes no place in the file
            raise ValueError(f"unpacked it has more than {LARGEST / 1e9:.0f} GB; take a sample of its rows")
        return pandas.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise ValueError(f"{path} is a Parquet file, which needs pyarrow (pip install pyarrow), or use CSV") from error
    except Exception as error:  # pyarrow has errors of its own
        raise ValueError(f"{path} can't be read as Parquet: {error}") from error


def _named(frame: Any) -> Any:
    """The frame with text for names, each of which must be there once."""
    names = [str(name) for name in frame.columns]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ValueError(f"the table has several columns named {twice[0]!r}; rename them")
    frame = frame.set_axis(names, axis=1).infer_objects()  # numbers that are stored as objects are numbers
    decimals = [name for name in names if _are_decimals(frame[name])]
    return frame.astype(dict.fromkeys(decimals, float)) if decimals else frame


def _are_decimals(values: Any) -> bool:
    """Whether a column holds the decimals of Python and Arrow, which are numbers that pandas takes for objects."""
    first = values.first_valid_index() if values.dtype == object else None
    if first is None:
        return False
    present = values[values.notna()]
    return all(isinstance(value, Decimal) for value in present)


def write(frame: Any, path: Path) -> None:
    """Write a table, without its index, to a CSV or Parquet file, in one step.

    Raises:
        ValueError: if the name of the file does not say which, or pyarrow is not installed.
    """
    suffix = _suffix(path)
    if suffix not in _WRITTEN:
        raise ValueError(f"a table is written to a .csv, .csv.gz or .parquet file, got {str(path)!r}")
    with replacing(path) as temporary:
        if suffix == ".csv":
            frame.to_csv(temporary, index=False, compression="gzip" if path.name.endswith(_PACKED) else None)
            return
        try:
            frame.to_parquet(temporary, index=False, engine="pyarrow")
        except ImportError as error:
            raise ValueError(f"{path}: Parquet needs pyarrow (pip install pyarrow), or write CSV") from error


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
