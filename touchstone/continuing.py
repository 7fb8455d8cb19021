"""`touchstone resume` and `touchstone extend`: runs in a directory that go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import diagnostics
import inference
from inference.host.hosts import is_first
from touchstone.answers import Answer, AsJSON, answering, verdict_of
from touchstone.several_hosts import Coordinator, Host, Hosts, join

__all__ = ["extend", "resume"]

_Directory = Annotated[Path, typer.Argument(help="Directory of a run that `touchstone run --directory` began.")]


def resume(
    directory: _Directory,
    other_versions: Annotated[
        bool, typer.Option("--other-versions", help="Resume although a package has another version.")
    ] = False,
    coordinator: Coordinator = None,
    hosts: Hosts = None,
    host: Host = None,
    as_json: AsJSON = False,
) -> None:
    """Resume a run from its last save, and print its verdict."""
    with answering(as_json) as answer:
        join(coordinator, hosts, host, directory)
        _tell_end(answer, directory, inference.resume(directory, other_versions=other_versions))


def extend(
    directory: _Directory,
    draws: Annotated[int, typer.Option(help="Draws per chain in all, those that are there included.")],
    coordinator: Coordinator = None,
    hosts: Hosts = None,
    host: Host = None,
    as_json: AsJSON = False,
) -> None:
    """Make more draws of a run that has come to its end, and print its verdict."""
    with answering(as_json) as answer:
        join(coordinator, hosts, host, directory)
        _tell_end(answer, directory, inference.extend(directory, draws=draws))


def _tell_end(answer: Answer, directory: Path, posterior: inference.Posterior) -> None:
    """Say how many draws a run in a directory has, why it ended, and its verdict."""
    if not is_first():
        return
    chains, draws = posterior.shape
    answer.say(f"{directory}: {chains} x {draws} draws, ended: {posterior.ended}", directory=directory)
    if answer.as_json:
        answer.say(**verdict_of(posterior))
    else:
        answer.say(str(diagnostics.convergence(posterior)))
