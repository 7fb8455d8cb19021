"""IMDB: 50,000 film reviews, half of them for training, with the sentiment to predict (Maas et al. 2011).

A cached file `imdb.npz` holds `x_train` and `x_test`, (n, 100) word numbers, the last 100 words of each review, padded
in front; `y_train` and `y_test`, 1 for a good review; and `vocab`, the words by number: 0 is padding, 1 the start of a
review, 2 any word beyond the 20,000 numbers, and `vocab[i]` has number i + 3. Words are numbered by how often they
occur in the training reviews, the most frequent first, ties in alphabetical order. A word is a run of letters, digits
and apostrophes, in lower case, after line breaks written as `<br />` have been taken out. Other tools cut text into
other words, so their numbers and results differ a little from these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from data.cache import Archive, File, load_arrays, read_members
from data.datasets import Dataset, official_split

__all__ = ["ARCHIVE", "LENGTH", "WORDS", "imdb"]

WORDS = 20_000
LENGTH = 100
_START, _UNKNOWN, _FIRST = 1, 2, 3
_KEYS = {
    "x_train": "uint16 (n, 100)",
    "y_train": "uint8 (n,)",
    "x_test": "uint16 (n, 100)",
    "y_test": "uint8 (n,)",
    "vocab": "text (words,)",
}


def imdb() -> Dataset:
    """The reviews as word numbers, int32, two classes, with the official test part; `extras["vocab"]` has the words."""
    arrays = load_arrays(ARCHIVE)
    source = "IMDB reviews (Maas et al. 2011), the last 100 words, 20,000 word numbers"
    return official_split("imdb", arrays, (LENGTH,), classes=2, source=source, scaling="none")


def _convert(files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    texts = read_members(files["aclImdb_v1.tar.gz"], r"aclImdb/(train|test)/(neg|pos)/[^/]+\.txt")
    reviews = {part: [_reviews(texts, f"{part}/{kind}") for kind in ("neg", "pos")] for part in ("train", "test")}
    counts = Counter(word for kind in reviews["train"] for review in kind for word in review)
    vocabulary = sorted(counts, key=lambda word: (-counts[word], word))[: WORDS - _FIRST]
    number = {word: i + _FIRST for i, word in enumerate(vocabulary)}
    arrays = {"vocab": np.asarray(vocabulary)}
    for part, (negative, positive) in reviews.items():
        order = np.random.default_rng(0).permutation(len(negative) + len(positive))  # not one class after the other
        numbers = np.stack([_numbers(review, number) for review in (*negative, *positive)])
        arrays[f"x_{part}"] = numbers[order]
        arrays[f"y_{part}"] = (order >= len(negative)).astype(np.uint8)
    return arrays


def _reviews(texts: Mapping[str, bytes], folder: str) -> list[list[str]]:
    """The words of each review in `folder`, in the order of the file names."""
    names = sorted(name for name in texts if name.startswith(f"aclImdb/{folder}/"))
    if not names:
        raise ValueError(f"the archive of IMDB lacks reviews in {folder}")
    plain = (re.sub(r"<br\s*/?>", " ", texts[name].decode("utf-8").lower()) for name in names)
    return [re.findall(r"[a-z0-9']+", text) for text in plain]


def _numbers(words: Iterable[str], number: Mapping[str, int]) -> np.ndarray:
    """The last `LENGTH` word numbers of a review, padded in front with 0."""
    found = [_START, *(number.get(word, _UNKNOWN) for word in words)][-LENGTH:]
    return np.array([0] * (LENGTH - len(found)) + found, np.uint16)


ARCHIVE = Archive(
    "imdb",
    _KEYS,
    (
        File("http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz", 84125825,
             "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"),
    ),
    _convert,
    "TensorFlow Datasets, tensorflow_datasets/datasets/imdb_reviews/checksums.tsv",
)  # fmt: skip
"""Where the set comes from."""
