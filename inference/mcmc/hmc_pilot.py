r"""HMC's pilot: four chains that find the scales, the step size and the trajectory length which all chains share.

It runs in rounds; between two rounds the host looks at all four chains. Their number does not depend on how many chains
the user asks for, so that a chain's draws do not depend on its company.

1. A quarter of `tuning`, with the prior's scales, and few steps a trajectory: the way to where the mass is.
2. A quarter, with the scales of the first round, see `inference.mcmc.shared_scales`.
3. The rest, with the scales of the second round and several lengths in turn.

**The length.** With length t, a function f moves by (f' - f)^2, whose mean is 2 var(f) (1 - r) with r the
autocorrelation from one draw to the next, so that a draw is worth (1 - r) / (1 + r) independent ones. The length that
is taken is worth most per leapfrog step, for the functions at the probes and for their squared distances from the mean,
of which the worse one counts: a trajectory that turns a function to its mirror image moves it far, and its square not
at all. Lengths from pi/2 in scaled coordinates are tried, and if the longest of them is the best, longer ones in
another round.

**A round that fails**, because a chain accepts far less than is aimed at or because steps diverge, says nothing about
lengths: another one follows from where it got to, with the same lengths. After five rounds the chains run all the same,
and a note says so.

The chains have the scales of the last round, which are those of the most draws; the length was found with those of the
round before.

NUTS and MCLMC with `mass="tuned"` have the same pilot, of HMC's chains, without the search for a length.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from inference.mcmc.hmc_adaptation import MOST_STEPS, Settings
from inference.mcmc.shared_scales import shared_scales
from inference.methods import Found, Rehearsal
from inference.target.density import Data, Target
from inference.target.prior_scales import relative_scales
from inference.target.vectors import Flattened
from models import Network, shared_shapes

__all__ = ["SCALES", "Pilot", "best_length"]

_CHAINS = 4
_SCALING = 2  # rounds that find scales before lengths are tried
_MOST = 5  # rounds
_DEAR = 150  # steps a trajectory: lengths beyond those that take more are not tried
_LEAST_ITERATIONS = 16  # of a round: each length is seen to move draws at least once
_FIRST_STEP = 0.2  # in coordinates of the posterior's scale, where a step of 1 is too long
_FAR = 0.25  # below the acceptance that is aimed at: a chain has not found its step
_DIVERGENT = 0.2  # the share of divergent trajectories above which a round has failed
_SLOWEST = 0.02  # the share of the functions that are waited for: of many, one alone would be the noisiest
_GOOD = 0.8  # of the most that a length is worth: the longest such length is taken, as one too short is the worse error
_MOVED, _FAIR = 0.4, 0.5  # 1 - r that is sought even where it is worth less per step: a quarter of a draw a trajectory
_LEAST = 1e-3  # a share of the variance, below which a length moves nothing


class Pilot(NamedTuple):
    """What HMC's pilot is to find.

    Attributes:
        tuning: iterations in all, unless a round is made again.
        warmup: iterations of the warm-up of chains.
        target: the acceptance that is aimed at.
        mass: see `inference.HMC`.
        seeks_length: whether the trajectory length is sought.
        seeks_step: whether the step size of chains is sought.
    """

    tuning: int
    warmup: int
    target: float
    mass: str
    seeks_length: bool
    seeks_step: bool

    @property
    def in_rounds(self) -> bool:
        """Whether there are rounds; a pilot for the step size alone is one chain in one piece."""
        return self.seeks_length or self.mass != "prior"

    @property
    def chains(self) -> int:
        """How many chains it has."""
        return _CHAINS if self.in_rounds else 1

    def iterations(self, number: int) -> int:
        """How many iterations a round has."""
        if not self.in_rounds:
            return self.tuning
        return max(self.tuning // 4 if number < _SCALING else self.tuning // 2, _LEAST_ITERATIONS)

    def options(self, settings: Settings) -> dict[str, Any] | None:
        """The options of HMC for the next round; None if nothing is left to find."""
        if settings.round < 0:
            return None
        draws = self.iterations(int(settings.round))
        return {"chains": self.chains, "warmup": 0, "draws": draws, "thin": 1, "until": None, "keep": "none"}

    def begin(self, target: Target, data: Data, precision: str) -> Settings:
        """The settings of the first round, with the prior's scales and length; a flat prior has scales of 1."""
        scale, unit = relative_scales(target, data, precision)
        unit = unit or 1.0
        return self.first(Settings.of(scale, unit, 0.5 * math.pi * unit, None))

    def first(self, settings: Settings) -> Settings:
        """The settings of the first round; those of the chains, if nothing is sought."""
        if not self.in_rounds and not self.seeks_step:
            return settings.of_chains(self.warmup, self.seeks_step)
        return settings.of_round(0, self.iterations(0), few=self.in_rounds)

    def after(
        self, target: Target, data: Data, settings: Settings, rehearsal: Rehearsal, step_size: float | None = None
    ) -> Found:
        """What a round has found: the settings of the next round or of the chains, which have a given `step_size`."""
        number, accepted = int(settings.round), rehearsal.statistics["acceptance_rate"].mean(axis=1)
        failed = accepted.min() < self.target - _FAR or rehearsal.statistics["diverging"].mean() > _DIVERGENT
        length, again = (float(settings.lengths[0]), True) if failed else self._length(settings, rehearsal)
        steps = [float(state.adaptation.averaging.mean) for state in rehearsal.states]
        step = math.exp(float(np.mean(steps)))
        if self.mass != "prior":
            settings = settings._replace(scale=self._scales(target, data, settings, rehearsal))
            step = _FIRST_STEP * float(settings.unit) if number == 0 else step
        one = settings.lengths.dtype.type
        step = float(np.clip(step, length / MOST_STEPS, length))
        settings = settings._replace(lengths=np.full_like(settings.lengths, length), step_size=one(step))
        if not self.in_rounds:
            return Found(settings.of_chains(self.warmup, self.seeks_step))
        flat = Flattened.of(target, data)
        positions = [flat.position(jax.device_get(state.position)) for state in rehearsal.states]
        if number + 1 < _MOST and (number < _SCALING or again or failed):
            number += 1
            tried = self.seeks_length and number >= _SCALING
            return Found(settings.of_round(number, self.iterations(number), tried=tried), positions)
        if step_size is not None:
            settings = settings._replace(step_size=one(step_size))
        note = (
            f"hmc: the pilot's chains accepted {accepted.min():.2f} to {accepted.max():.2f} of their proposals where "
            f"{self.target:g} was aimed at: scales and length may not fit; use a larger tuning"
        )
        return Found(settings.of_chains(self.warmup, self.seeks_step), positions, note if failed else "")

    def _length(self, settings: Settings, rehearsal: Rehearsal) -> tuple[float, bool]:
        """The length to go on with, and whether other lengths should be tried around it."""
        if len(np.unique(settings.lengths)) == 1:
            return float(settings.lengths[0]), False
        scalars = rehearsal.statistics
        lengths, steps = scalars["trajectory_length"], scalars["n_steps"]
        length, place = best_length(lengths, steps, rehearsal.functions(), int(settings.most_steps))
        longest = place == len(settings.lengths) - 1
        return length, longest and float(steps.mean()) < _DEAR

    def _scales(self, target: Target, data: Data, settings: Settings, rehearsal: Rehearsal) -> Any:
        """The scales by the round's moments, relative to the unit."""
        unit, precision = float(settings.unit), str(settings.lengths.dtype)
        prior = {name: each * unit for name, each in relative_scales(target, data, precision)[0].items()}
        shapes = {name: each.shape for name, each in prior.items()}
        if self.mass == "tuned" and isinstance(target.model, Network):
            shapes |= shared_shapes(target.model, np.asarray(data.arrays[0][:1]), shapes)
        flat = Flattened.of(target, data)
        moments = [jax.tree.map(flat.position, jax.device_get(state.adaptation.moments)) for state in rehearsal.states]
        scales = shared_scales(moments, shapes, prior)
        return {name: (each / unit).astype(each.dtype) for name, each in scales.items()}


SCALES = Pilot(tuning=100, warmup=0, target=0.85, mass="tuned", seeks_length=False, seeks_step=True)
"""The pilot of samplers that take scales from it and find all else themselves."""


def best_length(lengths: np.ndarray, steps: np.ndarray, functions: np.ndarray, most: int = 2**30) -> tuple[float, int]:
    """The length whose draws are worth most per step, and its place among the lengths that were tried.

    Args:
        lengths: the length of each trajectory, (chain, draw).
        steps: its number of leapfrog steps.
        functions: the functions of the draw that it ended with, (chain, draw, k).
        most: steps at which trajectories were cut off; lengths that were cut off are not known to be good.
    """
    functions = functions.astype(np.float64)
    away = (functions - functions.mean(axis=(0, 1))) ** 2
    tried = np.unique(lengths)
    whole = [steps[lengths == length].max() < most for length in tried]
    tried = tried[: max(1, int(np.argmin(whole)) if not all(whole) else len(tried))]
    made = [lengths[:, 1:] == length for length in tried]
    shares = np.minimum(_slowest(functions, made), _slowest(away, made))
    worth = shares / (2 - shares) / [steps[:, 1:][these].mean() for these in made]
    padded = np.concatenate([worth[:1], worth, worth[-1:]])
    smooth = (padded[:-2] * padded[1:-1] * padded[2:]) ** (1 / 3)  # neighbours differ by a factor of 1.4
    place = int(np.flatnonzero(smooth >= _GOOD * smooth.max())[-1])
    while place + 1 < len(tried) and shares[place] < _MOVED and smooth[place + 1] >= _FAIR * smooth.max():
        place += 1
    return float(tried[place]), place


def _slowest(values: np.ndarray, made: list[np.ndarray]) -> np.ndarray:
    """1 - r after each length, for the slowest of the `values`, (chain, draw, k), together."""
    values = values[..., values.var(axis=(0, 1)) > 0]
    if not values.shape[2]:  # nothing has moved
        return np.full(len(made), _LEAST)
    moved = np.diff(values, axis=1) ** 2 / (2 * values.var(axis=(0, 1)))
    shares = np.stack([moved[these].mean(axis=0) for these in made])
    slowest = np.argsort(shares.mean(axis=0))[: max(1, round(_SLOWEST * shares.shape[1]))]
    return np.clip(shares[:, slowest].mean(axis=1), _LEAST, 2 - _LEAST)
