"""The options of a run on several hosts: each of them runs the same command, with its own number."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

import inference
from inference.host.distributed import check_hosts

__all__ = ["Coordinator", "Host", "Hosts", "join"]

Coordinator = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="For a run on several hosts: address of the first of them, and a free port of it."
    ),
]
Hosts = Annotated[int | None, typer.Option(help="How many hosts there are; each runs this command.")]
Host = Annotated[int | None, typer.Option(help="The number of this host; the first one, 0, writes and prints.")]


def join(coordinator: str | None, hosts: int | None, host: int | None, directory: Path | None) -> None:
    """Become one of several hosts, if the options say so; what is wrong with them is found before the others are met.

    Raises:
        ValueError: for wrong options, or if there is no directory.
    """
    if coordinator is None and hosts is None and host is None:
        return
    if directory is None:
        raise ValueError(
            "a run on several hosts needs --directory, a folder that all of them see: when one is lost, "
            "touchstone resume goes on from there"
        )
    check_hosts(coordinator, hosts, host)
    _keep_output()
    inference.distributed(coordinator, hosts, host)


def _keep_output() -> None:
    """Leave standard output to this command: what JAX's network library prints there goes to standard error."""
    sys.stdout.flush()
    ours = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout = os.fdopen(ours, "w")
