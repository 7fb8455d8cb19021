r"""Images that are corrupted as in CIFAR-10-C (Hendrycks & Dietterich 2019), with its constants.

With v the pixels from 0 to 1 and c the constant of a kind at one of five severities:

    gaussian_noise   v + N(0, c^2)                      shot_noise    Poisson(c v) / c
    impulse_noise    a share c of all values becomes 0 or 1, each with probability 1/2
    gaussian_blur    v convolved with a normal of standard deviation c pixels, cut off at 4 c, edges repeated
    brightness       the largest channel of each pixel plus c, hue and saturation kept: for grey images v + c
    contrast         m + c (v - m), m the mean of each channel of the image
    pixelate         the means over boxes of an image that is c times as large, then enlarged again

What leaves 0 to 1 is clipped, and values are bytes again, rounded down, as there. The code behind the constants is
make_cifar_c.py of the repository hendrycks/robustness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import UInt8

from data import Split
from models.validation import one_of

__all__ = ["KINDS", "SEVERITIES", "corrupted", "corrupted_split"]

SEVERITIES = (1, 2, 3, 4, 5)

_CUT_OFF = 4.0  # standard deviations of a blur

_Noise = np.random.Generator


def _gaussian_noise(v: np.ndarray, c: float, random: _Noise) -> np.ndarray:
    return v + random.normal(scale=c, size=v.shape)


def _shot_noise(v: np.ndarray, c: float, random: _Noise) -> np.ndarray:
    return random.poisson(c * v) / c


def _impulse_noise(v: np.ndarray, c: float, random: _Noise) -> np.ndarray:
    hit = random.random(v.shape) < c
    return np.where(hit, random.random(v.shape) < 0.5, v)


def _gaussian_blur(v: np.ndarray, c: float, random: _Noise) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    return gaussian_filter(v, (0, c, c, 0), mode="nearest", truncate=_CUT_OFF)


def _brightness(v: np.ndarray, c: float, random: _Noise) -> np.ndarray:
    largest = v.max(axis=-1, keepdims=True)
    brighter = np.minimum(largest + c, 1.0)
    return np.where(largest > 0, v * brighter / np.where(largest > 0, largest, 1.0), brighter)


def _contrast(v: np.ndarray, c: float, random: _Noise) -> np.ndarray:
    mean = v.mean(axis=(1, 2), keepdims=True)
    return mean + c * (v - mean)


def _pixelate(v: np.ndarray, c: float, random: _Noise) -> np.ndarray:
    for axis in (1, 2):
        boxes, side = int(v.shape[axis] * c), v.shape[axis]
        weights = _box_weights(side, boxes)
        nearest = ((np.arange(side) + 0.5) * boxes / side).astype(int)
        v = np.moveaxis(np.tensordot(weights, v, axes=(1, axis))[nearest], 0, axis)
    return v


def _box_weights(side: int, boxes: int) -> np.ndarray:
    """What each pixel adds to the mean over each box: a box has the pixels whose centres are in it, as in Pillow."""
    centres = np.arange(side) + 0.5
    edges = np.arange(boxes + 1) * side / boxes
    inside = (centres >= edges[:-1, None]) & (centres < edges[1:, None])
    return inside / inside.sum(axis=1, keepdims=True)


KINDS: dict[str, tuple[Callable[[np.ndarray, float, _Noise], np.ndarray], tuple[float, ...]]] = {
    "gaussian_noise": (_gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot_noise": (_shot_noise, (500, 250, 100, 75, 50)),
    "impulse_noise": (_impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "gaussian_blur": (_gaussian_blur, (0.4, 0.6, 0.7, 0.8, 1.0)),
    "brightness": (_brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": (_contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
    "pixelate": (_pixelate, (0.95, 0.9, 0.85, 0.75, 0.65)),
}
"""Each kind with its five constants."""


def corrupted(
    images: UInt8[np.ndarray, "n height width *c"], kind: str, severity: int, seed: int = 0
) -> UInt8[np.ndarray, "n height width *c"]:
    """Images with a corruption.

    Args:
        images: bytes, with or without channels.
        kind: one of `KINDS`.
        severity: 1 to 5.
        seed: of the noise.
    """
    one_of("kind", kind, KINDS)
    if severity not in SEVERITIES:
        raise ValueError(f"severity must be 1 to 5, got {severity!r}")
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise ValueError(f"images must be bytes, (n, height, width[, channels]), got {images.dtype} {images.shape}")
    corrupt, constants = KINDS[kind]
    values = images.reshape(*images.shape[:3], -1) / 255.0
    changed = corrupt(values, constants[severity - 1], np.random.default_rng(seed))
    return (np.clip(changed, 0.0, 1.0) * 255).astype(np.uint8).reshape(images.shape)


def corrupted_split(split: Split, kind: str, severity: int, seed: int = 0) -> Split:
    """A split of images with a corruption, scaled as the split is."""
    images = split.pictures(slice(None)).round().astype(np.uint8)
    changed = split.scaler.inputs(corrupted(images, kind, severity, seed))
    return replace(split, x=changed.reshape(split.x.shape), name=f"{split.name}, {kind} {severity}", rows=None)
