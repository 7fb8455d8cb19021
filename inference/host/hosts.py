"""Several hosts: which of them this one is, what they agree on, and what happens when one of them is lost.

Every host runs the same script on the same arguments, so nearly all that they do is the same without a word. What
depends on a clock, a signal or a disk is not, and a host that decides alone would leave the others waiting for ever in
a sum over all devices. So such a thing is said to all: through the store of JAX's coordinator, which needs no device.
All hosts must ask the same in the same order, from their main threads, while no piece of a chain is under way that
waits for the answer. On one host nothing here costs anything.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import jax
from jax._src.distributed import global_state  # its store has no public name; see tests/unit/test_releases.py

__all__ = [
    "HostLost",
    "Watch",
    "all_do",
    "alone",
    "as_one",
    "be_patient",
    "check_same",
    "count",
    "everyones",
    "first_says",
    "is_first",
    "listen",
    "number",
    "together",
]

Value = TypeVar("Value")

_SLICE = 500  # milliseconds of waiting between two looks at Ctrl-C and at what other hosts say
_LEFT = 10.0  # seconds that a host which fails waits for the others to end, and until it is ended if it waits for more
_LONGER = 20  # times the longest piece so far may the next one take
_FAILED = 3  # the exit code of such a process; that of a run that failed, see `touchstone.answers`

_questions, _efforts = itertools.count(), itertools.count()
_effort: ContextVar[int] = ContextVar("effort", default=-1)  # the number of the context `together`, if this is in one
_patience = 60.0


class HostLost(RuntimeError):
    """Another host has failed, or has not answered for too long; within a run, this process ends ten seconds later."""

    def with_state(self, saved: bool) -> HostLost:
        """This error, which says what has become of the draws."""
        kept = "what was drawn is saved, and inference.resume goes on with it, on any number of hosts"
        return HostLost(f"{self}; {kept if saved else 'what was drawn is lost, as the run had no directory'}")


def count() -> int:
    """How many hosts there are, without starting JAX's backend where there is one."""
    return jax.process_count() if jax.distributed.is_initialized() else 1


def number() -> int:
    """Which of them this one is, from 0 on."""
    return jax.process_index() if jax.distributed.is_initialized() else 0


def is_first() -> bool:
    """Whether this is the host that writes, prints and decides."""
    return number() == 0


def be_patient(seconds: float) -> None:
    """Give up a host that has said nothing for so many seconds."""
    global _patience
    _patience = seconds


def alone(what: str) -> None:
    """Raise ValueError if there are several hosts, because `what` is for one."""
    if count() > 1:
        raise ValueError(f"{what} on {count()} hosts, which is not supported: run it on one")


def everyones(value: Value) -> list[Value]:
    """What every host has said, in the order of hosts; `value`, of JSON's types, is what this one says.

    Raises:
        HostLost: if a host has not answered for too long, see `be_patient`, or has failed.
    """
    hosts = count()
    if hosts == 1:
        return [value]
    question, mine = next(_questions), json.dumps(value)
    if is_first():
        said = [mine, *(_heard(f"{question}/{host}", host) for host in range(1, hosts))]
        _say(f"{question}/all", json.dumps(said))
    else:
        _say(f"{question}/{number()}", mine)
        said = json.loads(_heard(f"{question}/all", 0))
    if is_first() and question:  # everyone has read the answer before, or would not have answered now
        _store().key_value_delete(f"touchstone/{question - 1}")
    return [json.loads(each) for each in said]


def first_says(function: Callable[[], Value]) -> Value:
    """What `function` returns on the first host, which alone calls it; where it fails there, it fails everywhere."""
    if count() == 1:
        return function()
    value = all_do(lambda: function() if is_first() else None)
    return everyones(value)[0]  # type: ignore[return-value]


def all_do(function: Callable[[], Value]) -> Value:
    """What `function` returns here; every host calls it, and where it fails on one, it fails everywhere."""
    value, failure = None, None
    try:
        value = function()
    except Exception as error:
        failure = error
    said = everyones(f"{type(failure).__name__}: {failure}" if failure else "")
    if failure is not None:
        raise failure
    for host, failed in enumerate(said):
        if failed:
            raise HostLost(f"host {host} has failed with {failed}")
    return value  # type: ignore[return-value]


def check_same(what: str, fingerprints: Callable[[], dict[str, str]]) -> None:
    """Raise ValueError, on all hosts, unless the `fingerprints` of parts of `what` are the same on all of them."""
    if count() == 1:
        return
    first, *others = everyones(fingerprints())
    for host, other in enumerate(others, start=1):
        if different := [part for part in first if other.get(part) != first[part]]:
            raise ValueError(
                f"{what} is not the same on host {host} as on host 0: {' and '.join(different)} differ; all hosts must "
                "run the same script, on the same data, with the same versions and the same kind of processor"
            )


@contextmanager
def together() -> Iterator[None]:
    """A context in which all hosts do the same; what is raised on one is told to the others, who then end as well."""
    if count() == 1:
        yield
        return
    effort = next(_efforts)
    token = _effort.set(effort)
    try:
        yield
    except BaseException as error:
        _tell(effort, error)
        if isinstance(error, HostLost) or not _all_end(effort):
            _end_soon()
        raise
    finally:
        _effort.reset(token)


@contextmanager
def as_one() -> Iterator[None]:
    """A context in which the devices of all hosts work together, which fails where one of them is gone."""
    try:
        yield
    except Exception as error:
        if count() == 1:
            raise
        said = str(error).partition("\n")[0][:300]
        raise HostLost(f"what all hosts do together has failed, as if one of them were gone: {said}") from error


def _tell(effort: int, error: BaseException) -> None:
    """Tell the others that this host has failed."""
    with suppress(Exception):  # the coordinator may be gone, and then there is nobody to tell
        _say(f"failed/{effort}/{number()}", f"{type(error).__name__}: {error}"[:500])


def _all_end(effort: int) -> bool:
    """Whether all hosts have come to an end too, so that nobody waits for this one, nor this one for others."""
    until = time.monotonic() + _LEFT
    with suppress(Exception):
        while time.monotonic() < until:
            if len(_store().key_value_dir_get(f"touchstone/failed/{effort}/")) == count():
                return True
            time.sleep(0.05)
    return False


def listen() -> None:
    """Raise HostLost if another host has failed in the context `together` that this one is in."""
    if count() == 1 or _effort.get() < 0:
        return
    for key, why in _store().key_value_dir_get(f"touchstone/failed/{_effort.get()}/"):
        host = int(key.rpartition("/")[2])
        if host != number():
            raise HostLost(f"host {host} has stopped: {why}")


class Watch:
    """How long a piece may take that all hosts make together.

    The length of pieces is chosen by how long they take, so one that takes much longer waits for a host that does not
    come. The first piece is not known: there JAX itself notices a host that is dead.
    """

    def __init__(self) -> None:
        self._since, self._longest = time.monotonic(), 0.0

    def begin(self) -> None:
        """A piece begins."""
        self._since = time.monotonic()

    def end(self) -> None:
        """The piece has ended."""
        self._longest = max(self._longest, time.monotonic() - self._since)

    def look(self) -> None:
        """Raise HostLost if the piece takes too long, or another host has failed."""
        if count() == 1:
            return
        listen()
        waited = time.monotonic() - self._since
        if self._longest and waited > _patience + _LONGER * self._longest:
            raise HostLost(
                f"a piece of the chains has been under way for {waited:.0f} seconds, and the longest before it took "
                f"{self._longest:.1f}: another host, or the network, is stuck"
            )


def _store() -> Any:
    """The coordinator's store of keys and values."""
    return global_state.client


def _say(key: str, words: str) -> None:
    _store().key_value_set(f"touchstone/{key}", words)


def _heard(key: str, host: int) -> str:
    """What a `host` says, as soon as it says it."""
    until = time.monotonic() + _patience
    while True:
        try:
            return _store().blocking_key_value_get(f"touchstone/{key}", _SLICE)
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise HostLost(f"the coordinator can't be asked any more: {str(error).splitlines()[0]}") from error
        listen()
        if time.monotonic() > until:
            raise HostLost(f"host {host} has not answered for {_patience:.0f} seconds")


def _end_soon() -> None:
    """End this process soon after the error was shown: a thread of it may wait for ever for the lost host."""
    ending = threading.Timer(_LEFT, os._exit, (_FAILED,))
    ending.daemon = True
    ending.start()
