"""What every subcommand does alike: it answers in text or in JSON, and ends with an exit code that means something."""

from __future__ import annotations

import errno
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import jax
import numpy as np
import typer

import diagnostics
import inference
from inference.host.hosts import is_first
from inference.target.binding import NoStart

__all__ = ["FAILED", "INTERRUPTED", "WRONG_INPUT", "Answer", "AsJSON", "answering", "verdict_of"]

# Exit codes; docs/tables.md says what they mean. 0 is success, and 1 an error that is nobody's but ours.
WRONG_INPUT = 2
FAILED = 3
INTERRUPTED = 130

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

AsJSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class Answer:
    """What a subcommand has to say: lines of text as they come, or one JSON object at the end.

    Of several hosts, only the first says anything but errors.

    Args:
        as_json: collect values for JSON, and print no text.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self._values: dict[str, Any] = {}

    def say(self, text: str = "", **values: Any) -> None:
        """Print `text`, or keep `values` for the JSON object."""
        self._values |= values
        if text and not self.as_json and is_first():
            typer.echo(text)

    def end(self) -> None:
        """Print the JSON object, if that was asked for."""
        if self.as_json and is_first():
            typer.echo(json.dumps(_plain(self._values), indent=1))

    def fail(self, message: str, code: int) -> typer.Exit:
        """Print a message, and give the exception that ends the command with an exit code."""
        typer.secho(f"error: {message}", fg=typer.colors.RED, err=True)
        if self.as_json:
            typer.echo(json.dumps({"error": message, "exit_code": code}))
        return typer.Exit(code)


@contextmanager
def answering(as_json: bool = False) -> Iterator[Answer]:
    """An `Answer` for the block; what goes wrong in the block ends the command with a message and its exit code."""
    answer = Answer(as_json)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _note
            yield answer
        answer.end()
    except (FloatingPointError, NoStart, MemoryError, inference.HostLost) as error:
        raise answer.fail(str(error) or "there is too little memory", FAILED) from error
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise answer.fail(f"there is too little memory: {error}", FAILED) from error
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        raise answer.fail(said, FAILED if error.errno in _FULL else WRONG_INPUT) from error
    except (ValueError, TypeError) as error:
        raise answer.fail(str(error), WRONG_INPUT) from error
    except KeyboardInterrupt as error:
        raise answer.fail("stopped before there was anything to keep", INTERRUPTED) from error


def _note(message: Warning | str, *where: Any, **more: Any) -> None:
    """Show a warning without the line of Python that it came from, which is none of the user's."""
    typer.secho(f"note: {message}", fg=typer.colors.YELLOW, err=True)


def verdict_of(posterior: inference.Posterior) -> dict[str, Any]:
    """The verdict on a posterior, and what it has, for JSON."""
    judged = diagnostics.convergence(posterior)
    chains, draws = posterior.shape
    return {
        "method": posterior.method.name,
        "passed": judged.passed,
        "verdict": str(judged).splitlines()[0],
        "chains": chains,
        "draws": draws,
        "ended": posterior.ended,
        "seconds": posterior.cost.seconds,
    }


def _plain(value: Any) -> Any:
    """A value as JSON has it; numbers that JSON has not are null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, str | int | float) else str(value)  # a path, or a day of a user's table
