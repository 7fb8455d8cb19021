"""What several hosts agree on, with threads for hosts and a dict for the coordinator's store."""

from __future__ import annotations

import itertools
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import pytest

import inference
from inference.host import hosts
from inference.host.hosts import HostLost
from inference.host.signals import Signals


class _Store:
    """The part of JAX's store of keys and values that is in use."""

    def __init__(self):
        self.values, self._changed = {}, threading.Condition()

    def key_value_set(self, key, value):
        with self._changed:
            assert key not in self.values, f"{key} is said twice"
            self.values[key] = value
            self._changed.notify_all()

    def blocking_key_value_get(self, key, milliseconds):
        with self._changed:
            if not self._changed.wait_for(lambda: key in self.values, milliseconds / 1000):
                raise jax.errors.JaxRuntimeError(f"DEADLINE_EXCEEDED: {key}")
            return self.values[key]

    def key_value_dir_get(self, key):
        with self._changed:
            return [(each, value) for each, value in self.values.items() if each.startswith(key)]

    def key_value_delete(self, key):
        with self._changed:
            for each in [each for each in self.values if each.startswith(f"{key}/")]:
                del self.values[each]


class _Questions:
    """A counter of its own for each thread."""

    def __init__(self, here):
        self._here = here

    def __next__(self):
        self._here.question = getattr(self._here, "question", -1) + 1
        return self._here.question


@pytest.fixture
def on_hosts(monkeypatch):
    """Runs a function on several hosts at once; what each has returned or raised."""
    here, store = threading.local(), _Store()
    monkeypatch.setattr(hosts, "_store", lambda: store)
    monkeypatch.setattr(hosts, "number", lambda: here.number)
    monkeypatch.setattr(hosts, "_questions", _Questions(here))
    monkeypatch.setattr(hosts, "_efforts", itertools.repeat(0))
    monkeypatch.setattr(hosts, "_patience", 0.6)
    monkeypatch.setattr(hosts, "_SLICE", 20)
    ended = []
    monkeypatch.setattr(hosts, "_end_soon", lambda: ended.append(here.number))

    def run(number, function):
        monkeypatch.setattr(hosts, "count", lambda: number)

        def on(host):
            here.number = host
            try:
                return function(host)
            except BaseException as error:
                return error

        with ThreadPoolExecutor(number) as pool:
            return list(pool.map(on, range(number)))

    run.store, run.ended = store, ended
    return run


def test_everyone_hears_what_all_say_and_the_store_stays_small(on_hosts):
    found = on_hosts(3, lambda host: [hosts.everyones([host, turn]) for turn in range(20)])
    assert found == [[[[0, turn], [1, turn], [2, turn]] for turn in range(20)]] * 3
    assert len(on_hosts.store.values) == 3  # of the last question


def test_the_first_host_decides(on_hosts):
    asked = []
    found = on_hosts(3, lambda host: hosts.first_says(lambda: asked.append(host) or 10 + host))
    assert (found, asked) == ([10] * 3, [0])


def test_what_fails_on_one_host_fails_on_all(on_hosts):
    def function(host):
        return hosts.all_do(lambda: 1 / (host - 1))

    first, second, third = on_hosts(3, function)
    assert isinstance(second, ZeroDivisionError)
    for other in (first, third):
        assert isinstance(other, HostLost)
        assert "host 1 has failed with ZeroDivisionError" in str(other)


def test_hosts_that_would_run_something_else_are_told(on_hosts):
    def function(host):
        hosts.check_same("what is run", lambda: {"the data": "a", "the seed": "b" if host < 2 else "c"})

    for error in on_hosts(3, function):
        assert isinstance(error, ValueError)
        assert "not the same on host 2 as on host 0: the seed differ" in str(error)


def test_a_host_that_says_nothing_is_given_up(on_hosts):
    first, second = on_hosts(2, lambda host: hosts.everyones(0) if host == 0 else None)
    assert isinstance(first, HostLost)
    assert "host 1 has not answered" in str(first)
    assert second is None


def test_a_host_that_fails_tells_the_others_why(on_hosts, monkeypatch):
    monkeypatch.setattr(hosts, "_patience", 60.0)

    def function(host):
        with hosts.together():
            if host == 1:
                raise OSError("the disk is full")
            hosts.everyones(0)

    first, second = on_hosts(2, function)
    assert isinstance(second, OSError)
    assert isinstance(first, HostLost)
    assert "host 1 has stopped: OSError: the disk is full" in str(first)
    assert on_hosts.ended == [0]  # the other one has an error of its own, and nobody to wait for


def test_a_host_that_fails_while_the_others_wait_elsewhere_is_ended(on_hosts, monkeypatch):
    monkeypatch.setattr(hosts, "_LEFT", 0.2)

    def function(host):
        if host == 0:
            with hosts.together():
                raise OSError("the disk is full")

    on_hosts(2, function)
    assert on_hosts.ended == [0]


def test_what_breaks_where_all_work_together_is_a_lost_host(on_hosts):
    def function(host):
        with hosts.as_one():
            raise ValueError("Gloo AllGather failed\nand more")

    for error in on_hosts(2, function):
        assert isinstance(error, HostLost)
        assert str(error).endswith("Gloo AllGather failed")
    assert isinstance(on_hosts(1, function)[0], ValueError)


def test_what_failed_before_is_over(on_hosts):
    def function(host):
        with pytest.raises(FloatingPointError), hosts.together():
            raise FloatingPointError("all chains failed")
        return hosts.first_says(lambda: time.sleep(0.2) or "next")  # the other one looks around while it waits

    assert on_hosts(2, function) == ["next", "next"]


def test_a_piece_that_never_ends_is_noticed(on_hosts, monkeypatch):
    monkeypatch.setattr(hosts, "_patience", 0.0)

    def function(host):
        watch = hosts.Watch()
        watch.begin()
        time.sleep(0.01)
        watch.look()  # the first one may take its time
        watch.end()
        watch.begin()
        watch.look()
        time.sleep(0.01 * 2 * hosts._LONGER)
        watch.look()

    for error in on_hosts(2, function):
        assert isinstance(error, HostLost)
        assert "stuck" in str(error)


def test_a_signal_counts_on_several_hosts_once_all_know_of_it(monkeypatch):
    alone = Signals(terminate=True)
    alone.note(terminated=True)
    assert (alone.stop, alone.terminated) == (True, True)
    monkeypatch.setattr("inference.host.signals.count", lambda: 2)
    one, other = Signals(terminate=True), Signals(terminate=True)
    one._note(signal.SIGINT, None)
    assert (one.stop, one.terminated) == (False, False)
    for each in (one, other):
        each.heed([one.noted, other.noted])
    assert (one.stop, one.terminated) == (other.stop, other.terminated) == (True, False)
    with pytest.raises(KeyboardInterrupt):
        one._note(signal.SIGINT, None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (dict(hosts=2, host=0), "coordinator is missing"),
        (dict(coordinator="127.0.0.1:1"), "hosts and host are missing"),
        (dict(coordinator="127.0.0.1:1", hosts=2, host=2), "below the number of hosts, 2"),
        (dict(coordinator="127.0.0.1:1", hosts=2, host=-1), "host must be"),
        (dict(coordinator="127.0.0.1:1", hosts=0, host=0), "hosts must be"),
        (dict(coordinator="127.0.0.1", hosts=2, host=0), "HOST:PORT"),
        (dict(coordinator="127.0.0.1:99999", hosts=2, host=0), "HOST:PORT"),
        (dict(coordinator="127.0.0.1:1", hosts=2, host=0, timeout=0), "timeout"),
    ],
)
def test_wrong_hosts_are_refused_before_they_meet(options, said):
    with pytest.raises(ValueError, match=said):
        inference.distributed(**options)


def test_a_port_that_is_taken_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"can't listen at 127.0.0.1:{port}"):
            inference.distributed(f"127.0.0.1:{port}", 2, 0)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(OSError, match="an address of host 0 itself"):
        inference.distributed("192.0.2.1:55527", 2, 0)  # of the addresses that documents may use


def test_a_machine_without_its_cluster_is_told_what_to_give(monkeypatch):
    for name in ("SLURM_JOB_ID", "KUBERNETES_SERVICE_HOST", "OMPI_MCA_orte_hnp_uri", "JAX_COORDINATOR_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    with pytest.raises(ValueError, match="give coordinator, hosts and host"):
        inference.distributed()


def test_jax_must_not_have_started(monkeypatch):
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: True)
    with pytest.raises(RuntimeError, match="before anything that computes"):
        inference.distributed("127.0.0.1:1", 2, 1)
