r"""Uncertainty of a prediction: how much of it there is, and how much of it more data would remove.

For regression the parts are variances, for classification nats, and in both cases they add up (Kendall & Gal 2017; see
`inference.results.prediction`). Noise can swamp the epistemic part, so its share of the total is given too.

For labels there are two more measures. The maximum probability is the mixture's probability of its most probable class.
The variation ratio (Gal 2016, section 3.3.1) is

    1 - f / S,   f = the count of the most frequent label among y_1 .. y_S,   y_s ~ p(y | x, w_s)

one label sampled for each of the S draws of the posterior: it estimates 1 - the maximum probability. Much code takes
the most probable label of each draw instead of a sampled one. That is another measure, the share of the draws which
don't vote for the winner: here it is `disagreement`. It is 0 where all draws prefer the same label, however unsure they
are of it, and so always for a point estimate.

References: https://arxiv.org/abs/1703.04977; Gal, Uncertainty in Deep Learning (thesis, Cambridge 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from diagnostics.predictions.averaging import Mixture
from inference import Prediction
from inference.display.cards import card
from inference.results.prediction import Classification

__all__ = ["Uncertainty", "disagreement", "maximum_probability", "uncertainty", "variation_ratio"]


@dataclass(frozen=True, eq=False, repr=False)
class Uncertainty:
    """The parts of a prediction's uncertainty at n inputs; `str()` of it says how much each is on average.

    Attributes:
        total: the variance of the prediction, (n,) or (n, outputs), or its entropy, (n,).
        epistemic: the part that more data would remove.
        aleatoric: the part that more data would not remove.
        unit: the unit of the three, in words.
        structure: for an average over architectures, the part of `epistemic` that is due to not knowing the
            architecture; else None.
        variation_ratio: for labels, 1 - the share of the most frequent label among one sampled per draw; else None.
        disagreement: for labels, 1 - the share of the most frequent label among the draws' most probable ones.
        maximum_probability: for labels, the probability of the most probable label.
    """

    total: Float[np.ndarray, "n ..."]
    epistemic: Float[np.ndarray, "n ..."]
    aleatoric: Float[np.ndarray, "n ..."]
    unit: str
    structure: Float[np.ndarray, "n ..."] | None = None
    variation_ratio: Float[np.ndarray, " n"] | None = None
    disagreement: Float[np.ndarray, " n"] | None = None
    maximum_probability: Float[np.ndarray, " n"] | None = None

    @property
    def epistemic_share(self) -> Float[np.ndarray, "n ..."]:
        """The epistemic part of the total at each input; nan where there is no uncertainty at all."""
        return self._share(self.epistemic)

    @property
    def aleatoric_share(self) -> Float[np.ndarray, "n ..."]:
        """The aleatoric part of the total at each input; nan where there is no uncertainty at all."""
        return self._share(self.aleatoric)

    def _share(self, part: np.ndarray) -> np.ndarray:
        return np.divide(part, self.total, out=np.full(part.shape, np.nan), where=self.total > 0)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return card("Uncertainty", *str(self).splitlines())

    def __str__(self) -> str:
        total = float(self.total.mean())
        parts = {"epistemic": float(self.epistemic.mean()), "aleatoric": float(self.aleatoric.mean())}
        words = [f"{part:.3g} {name}" + (f" ({part / total:.0%})" if total > 0 else "") for name, part in parts.items()]
        lines = [f"{len(self.total)} inputs, mean {total:.3g} {self.unit}: {' and '.join(words)}"]
        if self.structure is not None:
            lines.append(f"of the epistemic part {self.structure.mean():.3g} is about the structure")
        if self.maximum_probability is not None and self.variation_ratio is not None and self.disagreement is not None:
            lines.append(
                f"mean maximum probability {self.maximum_probability.mean():.3f}, variation ratio "
                f"{self.variation_ratio.mean():.3f}, disagreement {self.disagreement.mean():.3f}"
            )
        return "\n".join(lines)


def uncertainty(prediction: Prediction | Mixture, seed: int = 0) -> Uncertainty:
    """The uncertainty of a prediction, in parts.

    Args:
        prediction: the prediction of a network, or an average of several.
        seed: the seed of the labels that the variation ratio samples.

    Raises:
        TypeError: if `prediction` is anything else.
        ValueError: if the noise has no variance, such as a Student-t with 2 degrees of freedom or fewer.
    """
    parts = _parts(prediction)
    split = prediction.total, prediction.epistemic, prediction.aleatoric
    structure = prediction.structure if isinstance(prediction, Mixture) else None
    first = parts[0][1]
    if not isinstance(first, Classification):
        own = "the data's own units of y" if first.restored else "the units of y"
        return Uncertainty(*split, f"in {own}, squared", structure)
    return Uncertainty(
        *split, "nats", structure, variation_ratio(prediction, seed), disagreement(prediction),
        maximum_probability(prediction),
    )  # fmt: skip


def variation_ratio(prediction: Prediction | Mixture, seed: int = 0) -> Float[np.ndarray, " n"]:
    """1 - the share of the most frequent label at each input, among one label sampled per draw."""
    parts = _parts_of_labels(prediction)
    seeds = np.random.SeedSequence(seed).generate_state(len(parts)).tolist()
    return _dispersion(parts, [part.sample(each) for (_, part), each in zip(parts, seeds, strict=True)])


def disagreement(prediction: Prediction | Mixture) -> Float[np.ndarray, " n"]:
    """1 - the share of the most frequent label at each input, among the draws' most probable labels."""
    parts = _parts_of_labels(prediction)
    return _dispersion(parts, [part.likelihood.probabilities(part.outputs).argmax(axis=-1) for _, part in parts])


def maximum_probability(prediction: Prediction | Mixture) -> Float[np.ndarray, " n"]:
    """The probability of the most probable label at each input."""
    _parts_of_labels(prediction)
    return prediction.probs.max(axis=1)  # type: ignore[union-attr]


def _dispersion(parts: list[tuple[float, Any]], labels: list[Int[np.ndarray, "_ _ n"]]) -> Float[np.ndarray, " n"]:
    """1 - the share of the most frequent label; a part counts by its weight, however many draws it has."""
    shares = [
        sum(w * (each == label).mean(axis=(0, 1)) for (w, _), each in zip(parts, labels, strict=True))
        for label in range(parts[0][1].likelihood.classes)
    ]
    return 1 - np.max(shares, axis=0)


def _parts(prediction: Any) -> list[tuple[float, Any]]:
    """The predictions that a prediction consists of, with their weights."""
    if isinstance(prediction, Mixture):
        return [(prediction.weights[name], part) for name, part in prediction.parts.items()]
    if isinstance(prediction, Prediction):
        return [(1.0, prediction)]
    raise TypeError(
        f"prediction must be what predict gives for a network, or an average of such, got {type(prediction).__name__}"
    )


def _parts_of_labels(prediction: Any) -> list[tuple[float, Any]]:
    parts = _parts(prediction)
    if not isinstance(parts[0][1], Classification):
        raise TypeError("prediction must be of labels; for a regression use epistemic, aleatoric and total")
    return parts
