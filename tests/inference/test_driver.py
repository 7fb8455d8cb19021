"""The driver: pieces, chains and Ctrl-C change nothing in the draws."""

from __future__ import annotations

import numpy as np
import pytest

import inference
from inference import driver

NUTS = {"method": "nuts", "draws": 20, "warmup": 15, "max_tree_depth": 5, "start": "random"}


def same(first: inference.Posterior, second: inference.Posterior, draws: int | None = None, chains: int | None = None):
    return all(
        first.draws[name][:chains, :draws].tobytes() == second.draws[name][:chains, :draws].tobytes()
        for name in first.draws
    )


def test_the_length_of_pieces_does_not_change_the_draws(conjugate, monkeypatch):
    whole = conjugate.run(chains=2, **NUTS)
    monkeypatch.setattr(driver, "_PIECE_SECONDS", 1e-9)  # one iteration at a time
    pieces = conjugate.run(chains=2, **NUTS)
    assert same(whole, pieces)
    assert whole.cost.gradients == pieces.cost.gradients


def test_a_chain_does_not_depend_on_its_company(conjugate):
    alone, three = conjugate.run(chains=1, **NUTS), conjugate.run(chains=3, **NUTS)
    assert same(alone, three, chains=1)
    assert not np.array_equal(three.draws["output.bias"][0], three.draws["output.bias"][1])


def test_fewer_draws_are_the_first_of_more(conjugate):
    assert same(conjugate.run(chains=2, **NUTS), conjugate.run(chains=2, **{**NUTS, "draws": 7}), draws=7)


def test_thinning_keeps_every_third_draw(conjugate):
    every = conjugate.run(chains=1, **{**NUTS, "draws": 21})
    third = conjugate.run(chains=1, thin=3, **{**NUTS, "draws": 7})
    for name in every.draws:
        np.testing.assert_array_equal(every.draws[name][:, 2::3], third.draws[name])
    for name in every.statistics:
        np.testing.assert_array_equal(every.statistics[name][:, 2::3], third.statistics[name])


def test_gradients_are_counted_in_warmup_too(conjugate):
    posterior = conjugate.run(chains=2, **NUTS)
    assert posterior.cost.gradients > posterior.statistics["n_steps"].sum()
    assert conjugate.run(method="map", steps=40).cost.gradients == 40


def _interrupt_after(monkeypatch, calls: int) -> None:
    counted = {"calls": 0}
    original = driver.wait

    def wait(*args, **kwargs):
        counted["calls"] += 1
        if counted["calls"] == calls:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(driver, "wait", wait)
    monkeypatch.setattr(driver, "_PIECE_SECONDS", 1e-9)


def test_interrupt_returns_what_was_drawn(conjugate, monkeypatch):
    options = {**NUTS, "warmup": 3}
    whole = conjugate.run(chains=2, **options)
    _interrupt_after(monkeypatch, calls=15)  # each call before that ends one or two pieces of one iteration
    stopped = conjugate.run(chains=2, **options)
    chains, draws = stopped.shape
    assert stopped.partial
    assert chains == 2
    assert 1 <= draws < 20
    assert same(whole, stopped, draws=draws)
    assert stopped.idata.posterior.attrs["partial"] == 1


def test_a_second_interrupt_gives_up(conjugate, monkeypatch):
    def wait(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(driver, "wait", wait)
    monkeypatch.setattr(driver, "_PIECE_SECONDS", 1e-9)
    with pytest.raises(KeyboardInterrupt):
        conjugate.run(chains=2, **NUTS)


def test_interrupt_in_warmup_has_nothing_to_return(conjugate, monkeypatch):
    _interrupt_after(monkeypatch, calls=3)
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        conjugate.run(chains=2, **NUTS)


def test_interrupted_optimisation_gives_the_point_it_reached(conjugate, monkeypatch):
    _interrupt_after(monkeypatch, calls=5)
    stopped = conjugate.run(method="map", steps=1000)
    assert stopped.partial
    assert 1 <= stopped.curves["loss"].shape[1] < 1000


def test_an_error_in_a_worker_reaches_the_caller(conjugate, monkeypatch):
    def watch(self, info, done):
        raise FloatingPointError("on purpose")

    monkeypatch.setattr(inference.MAP, "watch", watch)
    with pytest.raises(FloatingPointError, match="on purpose"):
        conjugate.run(method="map", steps=50)


def test_progress_in_a_log_is_a_few_plain_lines(conjugate, capsys):
    inference.run(conjugate.model, conjugate.x, conjugate.y, method="map", steps=50)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("map: 50/50  loss ")


def test_progress_off_is_silent(conjugate, capsys):
    conjugate.run(method="map", steps=50)
    assert capsys.readouterr() == ("", "")
