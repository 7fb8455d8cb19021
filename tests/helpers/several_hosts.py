"""Processes on this machine for hosts: each runs the same script, and they meet at a port that the system picks."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import models

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(0).normal(size=(203, 3)).astype(np.float32)
Y = np.sin(X[:, 0])
MODEL = models.mlp((6,), "tanh")
FOUND = "found: "

# A step of the plan is a dict of arguments of `run` or, if it names a directory to resume, of `resume`; what stands in
# "on" is for the hosts with these numbers.
SCRIPT = """
import hashlib, json, sys, warnings
import inference
from inference.engine.pace import pace

address, hosts, host, plan = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
if hosts > 1:
    inference.distributed(address, hosts, host, timeout=plan.pop("timeout", 60))
from tests.helpers.several_hosts import FOUND, MODEL, X, Y

warnings.simplefilter("ignore")
with pace(saving_share=1.0, piece_seconds=0.02 + 0.05 * host):  # the pace of the first host must be that of all
    for step in plan["steps"]:
        step |= step.pop("on", {}).get(str(host), {})
        data = X, Y + step.pop("off", 0)
        if "resume" in step:
            posterior = inference.resume(step["resume"], save_every=0.3)
        else:
            posterior = inference.run(MODEL, *data, save_every=0.3, **step)
        content = b"".join(values.tobytes() for values in posterior.draws.values())
        lp, curves = posterior.statistics["lp"], posterior.curves
        print(FOUND + json.dumps(dict(
            bits=hashlib.sha256(content).hexdigest(), arranged=posterior.cost.arranged, ended=posterior.ended,
            lp=lp[0].tolist(), loss=curves["loss"][0].tolist() if "loss" in curves else [],
        )), flush=True)
"""


class Ended(NamedTuple):
    """What has become of a host.

    Attributes:
        code: its exit code.
        out: what it has printed.
        err: what it has printed as errors, or in passing.
    """

    code: int
    out: str
    err: str

    @property
    def found(self) -> list[Any]:
        """What the script has found, step by step."""
        lines = [line.removeprefix(FOUND) for line in self.out.splitlines() if line.startswith(FOUND)]
        return [json.loads(line) for line in lines]


class Host(NamedTuple):
    """A host that runs, and the files that it prints to."""

    process: subprocess.Popen
    out: Any
    err: Any

    def end(self, until: float) -> Ended:
        """Wait until it has ended by itself; it is killed at `until`, by the clock of `time.monotonic`."""
        try:
            self.process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for file in (self.out, self.err):
            file.seek(0)
        return Ended(self.process.returncode, self.out.read(), self.err.read())


@contextmanager
def begun(commands: list[list[str]]) -> Iterator[list[Host]]:
    """A process for each command; none of them outlives the context."""
    files = [[tempfile.TemporaryFile("w+") for _ in range(2)] for _ in commands]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    hosts = [
        Host(subprocess.Popen(command, env=environment, cwd=ROOT, stdout=out, stderr=err), out, err)
        for command, (out, err) in zip(commands, files, strict=True)
    ]
    try:
        yield hosts
    finally:
        for host in hosts:
            host.process.kill()
            host.process.wait()
        for out, err in files:
            out.close()
            err.close()


def address() -> str:
    """An address of this machine alone, with a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def commands(hosts: int, plan: dict[str, Any]) -> list[list[str]]:
    """The command of each of `hosts` that run `SCRIPT`."""
    where = address()
    return [[sys.executable, "-c", SCRIPT, where, str(hosts), str(host), json.dumps(plan)] for host in range(hosts)]


def on_hosts(hosts: int, *steps: dict[str, Any], seconds: float = 120.0, **plan: Any) -> list[Ended]:
    """Run `SCRIPT` on so many hosts, within so many `seconds`."""
    with begun(commands(hosts, {"steps": steps, **plan})) as running:
        until = time.monotonic() + seconds
        return [host.end(until) for host in running]
