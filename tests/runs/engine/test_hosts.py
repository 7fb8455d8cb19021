"""One run on two hosts, which are two processes here: the chain of one process, and the first host writes."""

from __future__ import annotations

import hashlib

import pytest

import inference
from tests.helpers.several_hosts import MODEL, X, Y, on_hosts

HMC = dict(method="hmc", chains=1, draws=6, warmup=2, step_size=0.005, trajectory_length=0.1, start="random")


def _bits(posterior: inference.Posterior) -> str:
    return hashlib.sha256(b"".join(values.tobytes() for values in posterior.draws.values())).hexdigest()


@pytest.mark.filterwarnings("ignore::inference.TouchstoneWarning")  # after so few draws
def test_two_hosts_share_the_rows_of_a_chain_and_find_the_bits_of_one(tmp_path):
    # The second host measures pieces of another length; were it to decide by itself, both would wait for ever.
    first, second = on_hosts(2, dict(directory=str(tmp_path / "run"), **HMC), seconds=80, timeout=20)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    (there,), (here,) = first.found, second.found
    assert here == there
    assert there["arranged"] == "there are 2 hosts; 1 x 2 devices for chains x rows"
    alone = inference.run(MODEL, X, Y, arrangement="sharded", progress=False, **HMC)
    assert _bits(alone) == there["bits"]
    assert _bits(inference.load(tmp_path / "run")) == there["bits"]
    assert "hmc" in first.err  # its progress, and nothing of the other one's
    assert "hmc" not in second.err
