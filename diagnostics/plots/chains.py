"""Figures of chains: how they mix, whether they agree, and what their energy does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from diagnostics.convergences.spaces import Mixing, function_mixing
from inference import Posterior
from inference.display.figures import COLOURS, chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["effective_sizes", "energies", "losses", "mixing", "ranks", "temperatures", "traces"]

_RANK_BINS = 20
_LEAST_DRAWS = 4


def mixing(
    weights: Mixing | None,
    functions: Mixing | None,
    threshold: float = 1.01,
    title: str = "",
    aligned: Mixing | None = None,
) -> Figure:
    """R-hat of weights, of weights without symmetries, and of functions, as histograms."""
    figure, (axes,) = chart([title or "R-hat of weights and of functions"])
    for name, space, colour, style in _spaces(weights, aligned, functions):
        values = np.clip(np.where(np.isfinite(space.judged_rhat), space.judged_rhat, 11.0) - 1, 1e-4, 10.0)
        _histogram(axes, values, np.geomspace(1e-4, 10.0, 41), name, colour, style)
    axes.set_xscale("log")
    axes.axvline(threshold - 1, color="k", lw=0.8, ls=":")
    axes.annotate(
        f"{threshold:g} ", (threshold - 1, 1.0), xycoords=("data", "axes fraction"), ha="right", va="top", fontsize=8
    )
    ticks = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    axes.set_xticks(ticks, [f"{1 + tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="R-hat", ylabel="share of quantities", xlim=(0.9e-4, 12))
    axes.legend(frameon=False, fontsize="small")
    return figure


def effective_sizes(
    weights: Mixing | None,
    functions: Mixing | None,
    threshold: float = 400.0,
    title: str = "",
    aligned: Mixing | None = None,
) -> Figure:
    """ESS, the smaller of bulk and tail, of weights, of weights without symmetries, and of functions, as histograms."""
    figure, (axes,) = chart([title or "Effective draws of weights and of functions"])
    for name, space, colour, style in _spaces(weights, aligned, functions):
        values = np.maximum(np.minimum(space.ess_bulk, space.ess_tail), 1.0)
        _histogram(axes, values, np.geomspace(*_span(weights, aligned, functions), 31), name, colour, style)
    axes.set_xscale("log")
    axes.axvline(threshold, color="k", lw=0.8, ls=":")
    axes.annotate(f" {threshold:g}", (threshold, 0.0), xycoords=("data", "axes fraction"), va="bottom", fontsize=8)
    low, high = axes.get_xlim()
    ticks = [step * 10**power for power in range(7) for step in (1, 2, 5) if low <= step * 10**power <= high]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set(xlabel="effective sample size, bulk or tail", ylabel="share of quantities")
    axes.legend(frameon=False, fontsize="small")
    return figure


def ranks(posterior: Posterior, x: Any = None, title: str = "") -> Figure:
    """Ranks of one quantity among the draws of all chains, chain by chain: chains whose bars stay in the band agree.

    The quantity is the function value with the worst R-hat, or the log density for a model that is not a network. The
    band holds nine in ten bars of chains that agree and whose draws are independent.
    """
    name, values = _worst(posterior, x)
    chains, draws = values.shape
    order = rankdata(values).reshape(values.shape)
    figure, panels = chart(
        [f"chain {i}" for i in range(chains)],
        columns=min(chains, 4),
        size=(5.4 / min(chains, 4), 3.5 if chains <= 4 else 2.2),
    )
    edges = np.linspace(0.5, values.size + 0.5, min(_RANK_BINS, draws) + 1)
    share = 1 / (len(edges) - 1)
    expected, spread = draws * share, 1.645 * np.sqrt(draws * share * (1 - share))
    counts = [np.histogram(chain, edges)[0] for chain in order]
    top = max(2.4 * expected, 1.05 * max(map(np.max, counts)))
    for i, axes in enumerate(panels):
        axes.axhspan(expected - spread, expected + spread, color="0.9", zorder=0, lw=0)
        axes.stairs(counts[i], edges, color=COLOURS[i % len(COLOURS)], fill=True, alpha=0.75)
        axes.axhline(expected, color="0.3", lw=0.8, ls="--")
        axes.set_ylim(0, top)
        axes.set_xticks([])
        axes.tick_params(labelsize=7, labelleft=i % 4 == 0)
        axes.set_title(f"chain {i}", fontsize=8, loc="left")
    figure.suptitle(title or f"Ranks of {name}, chain by chain", fontsize=10, x=0.01, ha="left")
    figure.supxlabel("rank among all draws", fontsize=9)
    return figure


def traces(posterior: Posterior, x: Any = None, title: str = "") -> Figure:
    """The function value on which the chains agree least, along every chain."""
    name, values = _worst(posterior, x)
    figure, (axes,) = chart([title or f"Trace of {name}, on which the chains agree least"])
    for i, chain in enumerate(values):
        axes.plot(chain, lw=0.6, color=COLOURS[i % len(COLOURS)], label=f"chain {i}", alpha=0.85)
    axes.set(xlabel="draw", ylabel=name)
    if len(values) <= 8:
        figure.legend(frameon=False, ncols=4, fontsize="small", loc="outside lower center")
    return figure


def energies(posterior: Posterior, title: str = "") -> Figure:
    """The energy, and its change from draw to draw: a chain explores well if both are equally wide (E-BFMI)."""
    _require(posterior, "energy", posterior.statistics, "energies")
    energy = np.asarray(posterior.statistics["energy"], np.float64)
    figure, (axes,) = chart([title or "Energy, and its change from draw to draw"])
    level, change = energy - energy.mean(axis=1, keepdims=True), np.diff(energy, axis=1)
    bound = np.quantile(np.abs(np.concatenate([level.ravel(), change.ravel()])), 0.995) or 1.0
    edges = np.linspace(-bound, bound, 41)
    axes.hist(level.ravel(), edges, density=True, color=COLOURS[0], alpha=0.55, label="energy, centred")
    axes.hist(change.ravel(), edges, density=True, histtype="step", color=COLOURS[1], lw=1.4, label="change")
    axes.set(xlabel="nats", ylabel="density")
    axes.legend(frameon=False, fontsize="small")
    return figure


def temperatures(posterior: Posterior, title: str = "") -> Figure:
    """Running means of the two temperatures along every chain, and the temperature that they should have."""
    _require(posterior, "kinetic_temperature", posterior.statistics, "temperatures")
    figure, (axes,) = chart([title or "Temperatures so far, of the momentum and of the positions"])
    both = ("kinetic", COLOURS[0]), ("configurational", COLOURS[1])
    for name, colour in both:
        values = posterior.statistics[f"{name}_temperature"].astype(np.float64)
        means = values.cumsum(axis=1) / np.arange(1, values.shape[1] + 1)
        for i, chain in enumerate(means):
            axes.plot(chain, lw=0.9, color=colour, label=name if i == 0 else None)
    axes.axhline(posterior.temperature, color="k", lw=0.8, ls="--", label=f"T = {posterior.temperature:g}")
    axes.set(xlabel="draw", ylabel="temperature")
    axes.legend(frameon=False)
    return figure


def losses(posterior: Posterior, title: str = "") -> Figure:
    """The loss at every step, without the first tenth of the steps."""
    _require(posterior, "loss", posterior.curves, "losses")
    figure, (axes,) = chart([title or "Loss"])
    for i, chain in enumerate(posterior.curves["loss"]):
        first = len(chain) // 10
        steps = np.unique(np.linspace(first, len(chain) - 1, 2000).astype(int))  # as many as a figure can show
        axes.plot(steps, chain[steps], lw=0.6, color=COLOURS[i % len(COLOURS)])
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.set(xlabel="step", ylabel="loss (nats)")
    return figure


def _worst(posterior: Posterior, x: Any) -> tuple[str, np.ndarray]:
    """Name and draws, (chain, draw), of the quantity on which the chains agree least."""
    if posterior.kind != "chains" or posterior.shape[1] < _LEAST_DRAWS:
        raise ValueError(
            f"this figure is of chains of at least {_LEAST_DRAWS} draws; {posterior.method.name} gave "
            f"{posterior.shape[0]} x {posterior.shape[1]} draws of the kind '{posterior.kind}'"
        )
    space = function_mixing(posterior, x)
    if space is None:
        return "the log density", np.asarray(posterior.statistics["lp"], np.float64)
    worst = int(space.judged_rhat.argmax())
    return space.names[worst], space.draws[..., worst]


def _histogram(axes: Any, values: np.ndarray, edges: np.ndarray, name: str, colour: str, style: str) -> None:
    """Draw shares of quantities as a line, so that several histograms can share the axes."""
    shares = np.histogram(values, edges)[0] / len(values)
    axes.stairs(shares, edges, color=colour, ls=style, lw=1.4, label=name)
    if style == "-":
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.2, lw=0)


def _span(*spaces: Mixing | None) -> tuple[float, float]:
    """A range from just below the least to just above the largest effective size of all spaces."""
    sizes = [np.minimum(space.ess_bulk, space.ess_tail) for space in spaces if space is not None]
    every = np.maximum(np.concatenate(sizes), 1.0)
    return float(every.min()) / 1.05, float(every.max()) * 1.05


def _require(posterior: Posterior, name: str, found: Mapping[str, np.ndarray], figure: str) -> None:
    if name not in found:
        raise ValueError(f"plots.{figure} shows what {posterior.method.name} does not have: its run recorded no {name}")


def _spaces(
    weights: Mixing | None, aligned: Mixing | None, functions: Mixing | None
) -> list[tuple[str, Mixing, str, str]]:
    every = (
        ("weights", weights, COLOURS[1], "-"),
        ("weights, symmetries undone", aligned, COLOURS[1], "--"),
        ("functions", functions, COLOURS[0], "-"),
    )
    return [(name, space, colour, style) for name, space, colour, style in every if space is not None]
