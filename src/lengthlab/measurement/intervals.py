"""How far a mean nll, or a difference of two, may lie from what is seen: over documents, and over seeds. No torch.

Two sources, their variances added. *Documents*: 30 or more are resampled (the bootstrap, with the expanded percentiles
of Hesterberg 2015, arXiv:1411.5279); fewer say nothing of other texts, and the interval is that of *these* texts: a t
interval stratified by document, over its parts of 1,024 tokens (Cochran, Sampling Techniques, 1977, chapters 5 and 6).
*Seeds*: a t interval; both together by Welch and Satterthwaite.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, stdtr, stdtrit

from lengthlab.measurement.points import PARTS, Units

FEW = 30
"""Documents: below it a mean says more about these texts than about the language."""
RESAMPLES = 10_000
MOST = 2000
"""Documents that are resampled one by one; of more, groups are."""


class Interval(NamedTuple):
    """An estimate in nats with its confidence interval (NaN where `method` is "none"), and what it rests on."""

    value: float
    low: float
    high: float
    seeds: int
    texts: int
    method: str  # of the documents: "bootstrap", "parts" (these texts only) or "none"
    error: float = np.nan  # standard error
    freedom: float = np.nan  # its degrees of freedom

    def confidence_below(self, bound: float) -> float:
        """The one-sided confidence, 0 to 1, that the true value is below `bound`."""
        if self.error == 0:
            return float(self.value < bound)
        return float(stdtr(self.freedom, (bound - self.value) / self.error))


NOTHING = Interval(np.nan, np.nan, np.nan, 0, 0, "none")


def interval(terms: Sequence[tuple[float, Units | None]], confidence: float = 0.95) -> Interval:
    """The interval of a sum of mean nlls, each times its coefficient: [(1, a)] is a mean, [(1, a), (-1, b)] a change.

    All terms are of the same seeds (others are left out) and resampled together, which pairs them. NOTHING where a
    term has no sums, or the terms no seed in common.
    """
    if not terms or any(units is None for _, units in terms):
        return NOTHING
    seeds = sorted(set.intersection(*(set(units.seeds) for _, units in terms)))
    if not seeds:
        return NOTHING
    coefficients = np.array([coefficient for coefficient, _ in terms])
    index, targets, nll = _aligned([units for _, units in terms], seeds)
    of_seed = (coefficients[:, None] * nll.sum(2) / targets.sum(2)).sum(0)
    value, document = float(of_seed.mean()), index // PARTS
    texts = len(np.unique(document))
    x, t = nll.mean(1) * coefficients[:, None], targets.mean(1)
    if texts >= FEW:
        method, (resampled, error, freedom) = "bootstrap", _over_documents(x, t, document)
    else:
        method, resampled, (error, freedom) = "parts", None, _over_parts(x, t, document)
    if not freedom:
        return Interval(value, np.nan, np.nan, len(seeds), texts, "none")
    if resampled is not None and len(seeds) == 1:
        tail = ndtr(np.sqrt(texts / (texts - 1)) * stdtrit(texts - 1, (1 - confidence) / 2))
        low, high = np.quantile(resampled, [tail, 1 - tail])
        return Interval(value, float(low), float(high), 1, texts, method, error, freedom)
    error, freedom = _with_seeds(error, freedom, of_seed)
    half = error * stdtrit(freedom, (1 + confidence) / 2)
    return Interval(value, value - half, value + half, len(seeds), texts, method, error, freedom)


def _aligned(terms: list[Units], seeds: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The index (U) of all terms' units, and their targets and nll (terms, seeds, U), 0 where a term has none."""
    index = terms[0].index
    if any(not np.array_equal(units.index, index) for units in terms):
        index = np.unique(np.concatenate([units.index for units in terms]))
    sums = np.zeros((2, len(terms), len(seeds), len(index)))
    for k, units in enumerate(terms):
        rows = [units.seeds.index(seed) for seed in seeds]
        places = np.searchsorted(index, units.index)
        sums[0, k][:, places], sums[1, k][:, places] = units.targets[rows], units.nll[rows]
    return index, *sums


def _over_documents(x: np.ndarray, t: np.ndarray, document: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Resampled values, standard error and degrees of freedom; x, t (terms, units), x times its coefficient."""
    known, of_unit = np.unique(document, return_inverse=True)
    groups = min(len(known), MOST)
    of_unit = of_unit * groups // len(known)
    sums = [np.stack([np.bincount(of_unit, row, groups) for row in rows]) for rows in (x, t)]
    drawn = _times_drawn(groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        values = sum((drawn @ a) / (drawn @ b) for a, b in zip(*sums, strict=True))
    values = values[np.isfinite(values)]
    return values, float(values.std(ddof=1) * np.sqrt(groups / (groups - 1))), groups - 1


@lru_cache(maxsize=2)
def _times_drawn(documents: int) -> np.ndarray:
    """How often each document is in each resample, (RESAMPLES, documents): the same for all that is compared."""
    draws = np.random.default_rng(0).integers(0, documents, (RESAMPLES, documents))
    draws += np.arange(RESAMPLES)[:, None] * documents
    return np.bincount(draws.ravel(), minlength=RESAMPLES * documents).reshape(draws.shape).astype(float)


def _over_parts(x: np.ndarray, t: np.ndarray, document: np.ndarray) -> tuple[float, float]:
    """Standard error and degrees of freedom of a sum of ratios, stratified by document; x, t (terms, units)."""
    stratum, counts = _strata(document)
    residual = np.zeros(x.shape[1])
    for a, b in zip(x, t, strict=True):
        of_stratum = np.bincount(stratum, a) / np.maximum(np.bincount(stratum, b), 1)
        residual += (a - of_stratum[stratum] * b) / b.sum()
    squares = np.bincount(stratum, residual**2)
    free = counts > 1
    return float(np.sqrt((counts[free] / (counts[free] - 1) * squares[free]).sum())), int((counts - 1).sum())


def _strata(document: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each unit its document's number, and the units of each; documents of one unit stand together.

    A lone document of one unit stands with the smallest other.
    """
    _, stratum, counts = np.unique(document, return_inverse=True, return_counts=True)
    single = counts == 1
    if single.any() and len(counts) > 1:
        together = np.flatnonzero(single)[0]
        if single.sum() == 1:
            together = np.argmin(np.where(single, counts.max() + 1, counts))
        stratum = np.where(single[stratum], together, stratum)
        _, stratum, counts = np.unique(stratum, return_inverse=True, return_counts=True)
    return stratum, counts


def _with_seeds(error: float, freedom: float, of_seed: np.ndarray) -> tuple[float, float]:
    """Both sources together: Welch 1947, Satterthwaite 1946."""
    if len(of_seed) == 1:
        return error, freedom
    variances = np.array([error**2, of_seed.var(ddof=1) / len(of_seed)])
    total = variances.sum()
    if total == 0:
        return 0.0, freedom
    return float(np.sqrt(total)), float(total**2 / (variances**2 / [freedom, len(of_seed) - 1]).sum())
