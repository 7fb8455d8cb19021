"""The simulation of many devices, where the answer is known."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from benchmarks.scaling import SUMS, Machine, Work, gradient, main

FREE = dict(block_overhead=0.0, step_overhead=0.0, bandwidth=math.inf, latency=0.0, memory=math.inf)
POWERS = [2**i for i in range(10)]
EVEN = Work(images=40_960)  # whole blocks on 512 devices


@pytest.mark.parametrize("sums", SUMS)
def test_one_device_moves_nothing(sums):
    cost = gradient(Work(), Machine(1e-3), 1, sums)
    assert cost.moving == cost.received == 0
    assert cost.computing == pytest.approx(3136 * (16 * 1e-3 + 1e-4) + 1e-5)  # 3,125 blocks, filled up to 16 slots


@pytest.mark.parametrize("sums", SUMS)
def test_links_that_cost_nothing_make_devices_worth_their_number(sums):
    alone = gradient(EVEN, Machine(1e-3, **FREE), 1, sums).seconds
    assert alone == pytest.approx(40.96)
    for devices in POWERS:
        assert alone / gradient(EVEN, Machine(1e-3, **FREE), devices, sums).seconds == pytest.approx(devices)


def test_devices_beyond_a_power_of_two_are_idle():
    seconds = {devices: gradient(EVEN, Machine(1e-3, **FREE), devices).seconds for devices in (8, 12)}
    assert seconds[12] == seconds[8]


def test_chains_take_columns_first():
    work = Work(chains=4)
    assert [gradient(work, Machine(1e-3), devices)[-2:] for devices in (1, 2, 4, 8, 512)] == [
        (1, 1), (2, 1), (4, 1), (4, 2), (4, 128),
    ]  # fmt: skip
    alone = gradient(work, Machine(1e-3, **FREE), 1).seconds
    assert alone / gradient(work, Machine(1e-3, **FREE), 4).seconds == pytest.approx(4.0)


def test_what_is_moved_is_what_the_sums_say():
    whole = 4 * 274_042
    for devices in POWERS[1:]:
        slots = max(16, devices)
        gathered, scattered = (gradient(EVEN, Machine(1e-3), devices, sums) for sums in SUMS)
        assert gathered.received == pytest.approx(slots * whole * (devices - 1) / devices)
        assert scattered.received == pytest.approx((slots / devices + 1) * whole * (devices - 1) / devices)
        assert scattered.adding == pytest.approx(gathered.adding / devices)
    assert scattered.received < 2 * whole  # as much as any all-reduce moves, however many devices there are


@pytest.mark.parametrize("sums", SUMS)
def test_costs_go_one_way(sums):
    costs = [gradient(EVEN, Machine(1e-3), devices, sums) for devices in POWERS]
    assert all(more.computing < less.computing for less, more in pairwise(costs))
    assert sums == "scattered" or all(more.moving > less.moving for less, more in pairwise(costs))
    efficiency = [costs[0].seconds / cost.seconds / devices for cost, devices in zip(costs, POWERS, strict=True)]
    assert efficiency == sorted(efficiency, reverse=True)
    slower = [gradient(EVEN, Machine(1e-3, bandwidth=bandwidth), 64, sums).seconds for bandwidth in (1e11, 1e10, 1e9)]
    assert slower == sorted(slower)


def test_it_prints_its_assumptions_and_a_row_for_each_number_of_devices(capsys):
    main(["--seconds-per-image", "1e-5", "--bandwidth", "1e9"])
    text = capsys.readouterr().out
    assert "bandwidth 1e+09" in text
    assert [line.split()[0] for line in text.splitlines()[-10:]] == [str(devices) for devices in POWERS]
