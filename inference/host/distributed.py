"""`inference.distributed`: this process becomes one of several hosts, which run as one."""

from __future__ import annotations

import socket
import time
from typing import Any

import jax

from inference.host.hosts import HostLost, be_patient
from models.validation import positive_integer, positive_number

__all__ = ["check_hosts", "distributed"]

_START = 300  # seconds that hosts wait for each other at the beginning: a cluster does not start them all at once
_NAMED = 60  # seconds until a cluster knows the name of a host that it has just started
_END = 3600  # and at the end, where the first host may still write a report


def distributed(
    coordinator: str | None = None, hosts: int | None = None, host: int | None = None, *, timeout: float = 60.0
) -> None:
    """Make this process one of several hosts: to be called on each of them, before anything is computed.

    From then on `run`, `resume` and `extend` are one run on the devices of all hosts. All must run the same script on
    the same data. The first host, number 0, writes, prints and warns; the results are the same on all of them.

    Args:
        coordinator: the address of the first host and a free port of it, "HOST:PORT", at which it listens and at no
            other address. Whoever can reach it can send messages to the run, so it belongs in a network of its own.
            None leaves all three arguments to JAX, which knows them on SLURM, on TPU slices and, with its extra
            `jax[k8s]`, on Kubernetes; the first host then listens at all its addresses.
        hosts: how many hosts there are.
        host: the number of this one, from 0 on.
        timeout: seconds after which a host that says nothing is given up, and the others save what there is and end.

    Raises:
        ValueError: for wrong arguments, or if JAX can't find out who the hosts are.
        OSError: if the first host can't listen at the address.
        HostLost: if the hosts don't find each other.
        RuntimeError: if JAX has started already.
    """
    check_hosts(coordinator, hosts, host)
    positive_number("distributed: timeout", timeout)
    if jax.distributed.is_initialized():
        raise RuntimeError("distributed: this process is a host already; call it once")
    listen_at = _own_address(coordinator) if coordinator is not None and host == 0 else None
    jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM away from the run, which saves
    try:
        jax.distributed.initialize(
            coordinator, hosts, host, coordinator_bind_address=listen_at,
            initialization_timeout=_START, shutdown_timeout_seconds=_END,
            # JAX ends the process when it has missed a host for so long; before that, we have said so and saved.
            heartbeat_timeout_seconds=round(timeout) + 40,
            cluster_detection_method=None if coordinator is None else "deactivate",
        )  # fmt: skip
    except ValueError as error:
        raise ValueError(
            f"distributed: JAX does not know the hosts of this cluster ({error}); give coordinator, hosts and host"
        ) from error
    except RuntimeError as error:
        if "must be called before" in str(error):
            raise RuntimeError(
                "distributed: JAX has started already; call inference.distributed before anything that computes"
            ) from error
        raise HostLost(f"distributed: the hosts have not found each other: {str(error).splitlines()[0]}") from error
    be_patient(float(timeout))


def check_hosts(coordinator: str | None, hosts: int | None, host: int | None) -> None:
    """Raise ValueError unless the arguments of `distributed` are all there, or none of them, and fit each other."""
    given = {"coordinator": coordinator, "hosts": hosts, "host": host}
    missing = [name for name, value in given.items() if value is None]
    if 0 < len(missing) < len(given):
        raise ValueError(
            f"several hosts need coordinator, hosts and host together; {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing"
        )
    if coordinator is None or hosts is None or host is None:
        return
    positive_integer("hosts", hosts)
    positive_integer("host", host, least=0)
    if host >= hosts:
        raise ValueError(f"host must be below the number of hosts, {hosts}, as the first one is 0; got {host}")
    _parts(coordinator)


def _parts(coordinator: str) -> tuple[str, int]:
    """Host and port of an address."""
    name, _, port = coordinator.rpartition(":")
    if not (name and port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise ValueError(f"coordinator must be the first host's address and a port, HOST:PORT, got {coordinator!r}")
    return name.removeprefix("[").removesuffix("]"), int(port)


def _own_address(coordinator: str) -> str:
    """The address in numbers, at which this machine can listen; where it can't, JAX would end the process.

    Raises:
        OSError: if it can't.
    """
    name, port = _parts(coordinator)
    try:
        family, kind, protocol, _, address = _known(name, port)
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        raise OSError(
            f"host 0 can't listen at {coordinator} ({error.strerror or error}): the coordinator must be an address of "
            "host 0 itself, with a port that is free"
        ) from error
    return f"[{address[0]}]:{port}" if family == socket.AF_INET6 else f"{address[0]}:{port}"


def _known(name: str, port: int) -> tuple[Any, ...]:
    """What the system knows of an address."""
    until = time.monotonic() + _NAMED
    while True:
        try:
            return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0]
        except socket.gaierror:
            if time.monotonic() > until:
                raise
            time.sleep(1.0)
