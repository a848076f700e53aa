"""Is a value linearly decodable, and is that more than the probe's own doing? Logistic regressions with controls.

A probe's accuracy alone proves little: a rich representation decodes much that no one computed. So every result has,
beside the held-out accuracy of the value, that of a control task (Hewitt and Liang 2019: labels drawn at random for
each type of input), of an untrained model, and of shuffled labels, and the length of a code that learns as it goes
(Voita and Titov 2020). Samples of one group (a sequence) are never split between fitting and testing.
"""

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int, Shaped

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

STRENGTH = 0.1
"""Inverse weight of the squared penalty on standardised features (scikit-learn's C)."""
RESAMPLES = 1000
PORTIONS = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the fitting groups after which the online code's probe is fitted again."""
SMOOTHING = 0.01
"""Weight of the uniform distribution in the online code: unseen classes and sure mistakes cost finitely many bits."""


@dataclass(frozen=True)
class LinearProbe:
    """How well one value is decoded at one place, and what that must be compared with. Accuracies are balanced:
    the mean over the held-out classes of the share that is found; guessing has `chance`."""

    accuracy: float
    low: float
    """Ends of the 95% interval, by resampling held-out groups."""
    high: float
    control: float
    """Of labels drawn at random for each type of input: what the probe can memorise."""
    untrained: float
    """Of the same value from the same place in an untrained model."""
    shuffled: float
    """Of the value's labels shuffled over groups."""
    chance: float
    """1 / number of held-out classes: 1 if a rare class is not among them, and then nothing is decodable."""
    bits: float
    """Length of the online code, bits per label."""
    untrained_bits: float
    """The same from the untrained model."""
    uniform_bits: float
    """log2 of the number of classes: a code that has learned nothing."""
    n_groups: int
    """Held-out groups."""

    @property
    def selectivity(self) -> float:
        """Accuracy on the value minus accuracy on the control task."""
        return self.accuracy - self.control

    @property
    def decodable(self) -> bool:
        """Whether the interval lies above chance: an error of at most 2.5% where nothing is to be found."""
        return self.low > self.chance


def linear_probe(
    features: Float[np.ndarray, "sample d"],
    untrained: Float[np.ndarray, "sample width"],
    labels: Int[np.ndarray, "sample"],
    types: Int[np.ndarray, "sample"],
    groups: Shaped[np.ndarray, "sample"],
    rng: np.random.Generator,
) -> LinearProbe:
    """The probe of `labels` with all its baselines; half of the groups, drawn by `rng`, are held out.

    `untrained` are the features of the untrained model and `types` the kinds of input that the control task labels.
    """
    classes, encoded = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"every label is {classes.tolist()}: there is nothing to decode; use more inputs")
    fit, test = split_groups(groups, rng)
    n_classes = len(classes)
    chance = 1 / len(np.unique(encoded[test]))
    predicted = predictions(features, encoded, fit, test)
    low, high = _interval(encoded[test], predicted, groups[test], rng)
    control = random_labels(types, n_classes, rng)
    shuffled = _shuffled(encoded, groups, rng)
    of_control, of_untrained, of_shuffled = (
        balanced_accuracy(target[test], predictions(given, target, fit, test))
        for given, target in ((features, control), (untrained, encoded), (features, shuffled))
    )
    if len(np.unique(types)) < 2:
        of_control = chance  # one type has one label: nothing that could be told apart
    return LinearProbe(
        accuracy=balanced_accuracy(encoded[test], predicted),
        low=low,
        high=high,
        control=of_control,
        untrained=of_untrained,
        shuffled=of_shuffled,
        chance=chance,
        bits=online_code(features, encoded, groups, n_classes, rng),
        untrained_bits=online_code(untrained, encoded, groups, n_classes, rng),
        uniform_bits=float(np.log2(n_classes)),
        n_groups=len(np.unique(groups[test])),
    )


def split_groups(
    groups: Shaped[np.ndarray, "sample"], rng: np.random.Generator
) -> tuple[Int[np.ndarray, "fit"], Int[np.ndarray, "test"]]:
    """Samples for fitting and for testing: half of the groups each."""
    names = np.unique(groups)
    if len(names) < 4:
        raise ValueError(f"{len(names)} groups arrived, at least 4 are needed to hold half of them out")
    chosen = np.isin(groups, rng.permutation(names)[: len(names) // 2])
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)


def predictions(
    features: Float[np.ndarray, "sample d"],
    labels: Int[np.ndarray, "sample"],
    fit: Int[np.ndarray, "fit"],
    test: Int[np.ndarray, "test"],
) -> Int[np.ndarray, "test"]:
    """The labels that a logistic regression on the samples `fit` predicts for the samples `test`."""
    if len(np.unique(labels[fit])) < 2:
        return np.full(len(test), labels[fit][0])
    return _fitted(features, fit, labels).predict(_standardised(features, fit, test))


def balanced_accuracy(labels: Int[np.ndarray, "sample"], predicted: Int[np.ndarray, "sample"]) -> float:
    """The mean over classes of the share of their samples that is predicted rightly, in [0, 1]."""
    return float(np.mean([(predicted == labels)[labels == c].mean() for c in np.unique(labels)]))


def online_code(
    features: Float[np.ndarray, "sample d"],
    labels: Int[np.ndarray, "sample"],
    groups: Shaped[np.ndarray, "sample"],
    n_classes: int,
    rng: np.random.Generator,
) -> float:
    """Bits per label to send the labels of all groups in random order, each block by a probe fitted to those before.

    The first block is sent by the uniform code; so is one that comes after a single class.
    """
    names = rng.permutation(np.unique(groups))
    ends = sorted({max(1, round(portion * len(names))) for portion in PORTIONS})
    sent = np.flatnonzero(np.isin(groups, names[: ends[0]]))
    total = len(sent) * np.log2(n_classes)
    for start, end in pairwise(ends):
        block = np.flatnonzero(np.isin(groups, names[start:end]))
        total += _block_bits(features, labels, sent, block, n_classes)
        sent = np.concatenate([sent, block])
    return float(total / len(labels))


def _block_bits(features: np.ndarray, labels: np.ndarray, sent: np.ndarray, block: np.ndarray, n: int) -> float:
    seen = np.unique(labels[sent])
    if len(seen) < 2:
        return len(block) * np.log2(n)
    known = np.zeros((len(block), n))
    known[:, seen] = _fitted(features, sent, labels).predict_proba(_standardised(features, sent, block))
    given = ((1 - SMOOTHING) * known + SMOOTHING / n)[np.arange(len(block)), labels[block]]
    return float(-np.log2(given).sum())


def _fitted(features: np.ndarray, fit: np.ndarray, labels: np.ndarray) -> "LogisticRegression":
    from sklearn.linear_model import LogisticRegression  # here because it takes a second

    probe = LogisticRegression(C=STRENGTH, max_iter=1000, tol=1e-3)
    with warnings.catch_warnings():  # few samples of many classes: the control task and the accuracy show it
        warnings.filterwarnings("ignore", message="The number of unique classes is greater")
        return probe.fit(_standardised(features, fit, fit), labels[fit])


def _standardised(features: np.ndarray, fit: np.ndarray, of: np.ndarray) -> np.ndarray:
    """The samples `of` in units of the standard deviation of those in `fit`; a constant feature is left at zero."""
    mean, deviation = features[fit].mean(0), features[fit].std(0)
    return (features[of] - mean) / np.where(deviation > 1e-9 * (1 + np.abs(mean)), deviation, np.inf)


def _interval(
    labels: np.ndarray, predicted: np.ndarray, groups: np.ndarray, rng: np.random.Generator
) -> tuple[float, float]:
    """The 95% percentile interval of the balanced accuracy over resampled groups.

    Of a class that a resample lacks, nothing is found there: without it, guessing would have more than chance.
    """
    _, group = np.unique(groups, return_inverse=True)
    classes, label = np.unique(labels, return_inverse=True)
    counts = np.zeros((2, group.max() + 1, len(classes)))
    np.add.at(counts[0], (group, label), 1)
    np.add.at(counts[1], (group, label), predicted == labels)
    n = counts.shape[1]
    weights = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).astype(float)
    there, right = weights @ counts[0], weights @ counts[1]  # [resample class]
    recall = np.divide(right, there, out=np.zeros_like(right), where=there > 0)
    low, high = np.quantile(recall.mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def random_labels(
    types: Int[np.ndarray, "sample"], n_classes: int, rng: np.random.Generator
) -> Int[np.ndarray, "sample"]:
    """The control task: one label for each type, as evenly as possible over the classes."""
    _, kind = np.unique(types, return_inverse=True)
    labels = rng.permutation(np.arange(kind.max() + 1) % n_classes)
    return labels[kind]


def _shuffled(labels: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every group's labels replaced by another group's if all groups have one size; else permuted over samples."""
    order = np.argsort(groups, kind="stable")
    _, sizes = np.unique(groups, return_counts=True)
    if len(set(sizes.tolist())) > 1:
        return rng.permutation(labels)
    blocks = labels[order].reshape(len(sizes), -1)
    shuffled = np.empty_like(labels)
    shuffled[order] = blocks[rng.permutation(len(sizes))].reshape(-1)
    return shuffled
