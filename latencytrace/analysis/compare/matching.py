"""Weights that give two cohorts the same mix of requests, so that a changed mix is no shift.

Each request weighs as much as it is likely to be one of the other side, judged by its tokens,
its concurrency, its route and its model. What only one side has weighs nothing, no weight is
extreme, and the means of all terms of the model are exactly the same on both sides.

Source: Li, Morgan and Zaslavsky, "Balancing Covariates via Propensity Score Weighting", JASA
2018 (overlap weights). The model is logistic, of hinges over the logarithm of each number and
the products of two; it is fitted to counts of cells, so that its cost does not grow with the
requests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.model.cohorts.request_columns import UNKNOWN, KnownNumbers, RequestColumns, Words

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

NUMBERS: Final = ("input_tokens", "output_tokens", "concurrency")
WORDS: Final = ("route", "model")
LOAD: Final = "concurrency"  # a slower program has more requests under way: it is also an effect
LEAST_OVERLAP: Final = 0.15  # 1: both sides have the same mix; 0: nothing in common
LEAST_KNOWN: Final = 0.5  # of the requests of each side
FAILED: Final = frozenset({"error", "rejected"})
ALIKE_LOAD: Final = 1.25  # times as many requests a second
_CELLS: Final = 48  # that a number is split into
_MOST_WORDS: Final = 16
_KNOTS: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
_ROUNDS: Final = 25
_RIDGE: Final = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """Weights of the requests of two sides, 1 on average; one that weighs 0 is not compared."""

    a: Floats
    b: Floats
    on: tuple[str, ...]
    overlap_ratio: float  # how much the two mixes have in common
    unmatched: (
        str | None
    )  # what the sides have too little of in common; None: they can be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class _Requests:
    """The requests of both sides, A's first."""

    a: RequestColumns
    b: RequestColumns
    counted: Codes  # how many requests each is; 0: it is not compared

    def column(self, name: str) -> tuple[KnownNumbers, KnownNumbers]:
        return getattr(self.a, name), getattr(self.b, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Covariate:
    """Properties in which requests may differ: a cell for each request, and its terms."""

    name: str
    cells: Codes  # of the requests of both sides, A's first
    terms: Floats  # (cells, terms)
    trend: Floats | None  # by cell, for products; None: a word has none


def matching(a: RequestColumns, b: RequestColumns) -> Matching:
    """Weigh the requests of two sides so that their mixes are the same.

    Words that the sides do not share are what the two were chosen by, and are left out. So is
    concurrency where it differs although requests came as often: a slower program caused it.
    Requests that failed weigh nothing, where others did not: how fast an error comes is no
    latency.
    """
    served = [_counted(side) for side in (a, b)]
    of = _Requests(a=a, b=b, counted=np.concatenate(served))
    numbers = [one for name in NUMBERS if (one := _number(name, of)) is not None]
    words = [one for name in WORDS if (one := _word(name, of)) is not None]
    words = [one for one in words if _fitted([one], of)[1] >= LEAST_OVERLAP]
    for covariates in _attempts(numbers, words, of):
        chance_of_b, overlap = _fitted(covariates, of)
        if overlap >= LEAST_OVERLAP:
            weight_a = served[0] * chance_of_b[: len(a)]
            weight_b = served[1] * (1 - chance_of_b[len(a) :])
            return Matching(
                a=weight_a / weight_a.mean(),
                b=weight_b / weight_b.mean(),
                on=tuple(one.name for one in covariates),
                overlap_ratio=overlap,
                unmatched=None,
            )
    least = min(numbers, key=lambda one: _fitted([one], of)[1])
    return Matching(
        a=np.zeros(len(a)),
        b=np.zeros(len(b)),
        on=(),
        overlap_ratio=_fitted([*numbers, *words], of)[1],
        unmatched=least.name,
    )


def _counted(side: RequestColumns) -> Codes:
    """How many requests each is that did not fail; of all, where all of them did."""
    failed = [place for place, name in enumerate(side.status.names) if name in FAILED]
    served = ~np.isin(side.status.number, failed)
    if not served.any():
        served = np.ones(len(side), np.bool_)
    return np.where(served, side.weights(), 0)


def _attempts(
    numbers: Sequence[_Covariate],
    words: Sequence[_Covariate],
    of: _Requests,
) -> Iterator[list[_Covariate]]:
    """Yield what to match on: all, or without the load where the load was alike."""
    yield [*numbers, *words]
    without = [one for one in numbers if one.name != LOAD]
    if len(without) < len(numbers) and 1 / ALIKE_LOAD <= _load_ratio(of) <= ALIKE_LOAD:
        yield [*without, *words]


def _load_ratio(of: _Requests) -> float:
    """How many times as often requests came to B as to A, idle stretches left out."""
    gaps = [
        float(np.median(np.diff(side.start_ns))) / float(weighted.mean(side.weights(), None))
        for side in (of.a, of.b)
    ]
    return gaps[0] / gaps[1] if gaps[0] > 0 and gaps[1] > 0 else 1.0


def _number(name: str, of: _Requests) -> _Covariate | None:
    """A number that both sides know; None: too seldom, or it is the same everywhere."""
    sides = of.column(name)
    weights = of.a.weight, of.b.weight
    known_ratios = (
        float(weighted.mean(side.known, weight))
        for side, weight in zip(sides, weights, strict=True)
    )
    if min(known_ratios) < LEAST_KNOWN:
        return None
    values = np.log1p(np.maximum(np.concatenate([side.value for side in sides]), 0))
    known = np.concatenate([side.known for side in sides])
    levels = np.concatenate([np.linspace(0, 0.98, _CELLS - 3), [0.985, 0.99, 0.995]])
    edges = np.unique(np.quantile(values[known], levels, method="lower"))
    if len(edges) < 2 and bool(known.all()):  # noqa: PLR2004 - one value is no difference
        return None
    inside = np.searchsorted(edges, values, side="right")
    cells = np.where(known, inside, 0)
    sums = np.bincount(cells, weights=values, minlength=len(edges) + 1)
    counts = np.bincount(cells, minlength=len(edges) + 1)
    centre = sums / np.maximum(counts, 1)
    spread = float(values[known].std()) or 1.0
    trend = (centre - float(values[known].mean())) / spread
    trend[0] = 0.0  # unknown
    knots = np.unique(np.quantile(values[known], _KNOTS))
    hinges = [np.maximum(centre - knot, 0) / spread for knot in knots]
    terms = np.column_stack([trend, *hinges])
    terms[0] = 0.0
    unknown = np.zeros(len(centre))
    unknown[0] = 1.0
    return _Covariate(name=name, cells=cells, terms=np.column_stack([terms, unknown]), trend=trend)


def _word(name: str, of: _Requests) -> _Covariate | None:
    """A word that differs within a side; None: each side has but one."""
    sides: tuple[Words, Words] = getattr(of.a, name), getattr(of.b, name)
    places: dict[str | None, int] = {}
    coded = []
    for side in sides:
        table = [places.setdefault(word, len(places)) for word in [*side.names, None]]
        numbers = np.where(side.number == UNKNOWN, len(side.names), side.number)
        coded.append(np.array(table)[numbers])
    if all(len(np.unique(codes)) <= 1 for codes in coded):
        return None
    codes = np.concatenate(coded)
    found, inverse, counts = np.unique(codes, return_inverse=True, return_counts=True)
    rank = np.empty(len(found), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(found))
    cells = np.minimum(rank[inverse], _MOST_WORDS)
    return _Covariate(
        name=name, cells=cells, terms=np.eye(int(cells.max()) + 1, dtype=np.float64), trend=None
    )


def _fitted(covariates: Sequence[_Covariate], of: _Requests) -> tuple[Floats, float]:
    """How likely each request is one of B, both sides being as many; and how much they share."""
    code = np.zeros(len(of.counted), np.int64)
    for one in covariates:
        code = code * (int(one.cells.max()) + 1) + one.cells
    found, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    columns = [np.ones((len(found), 1))]
    columns += [one.terms[one.cells[first]] for one in covariates]
    trends = [one.trend[one.cells[first]] for one in covariates if one.trend is not None]
    columns += [(x * y)[:, None] for x, y in combinations(trends, 2)]
    shares = []
    for part in (slice(len(of.a)), slice(len(of.a), None)):
        counts = np.bincount(inverse[part], of.counted[part], len(found))
        shares.append(counts / max(counts.sum(), 1))
    chance = _logistic(np.hstack(columns), *shares)
    return chance[inverse], float(2 * (shares[0] * chance).sum())


def _logistic(terms: Floats, share_a: Floats, share_b: Floats) -> Floats:
    """The chance of B by cell, fitted by Newton's method with halved steps where it overshoots."""
    total, ridge = share_a + share_b, _RIDGE * np.eye(terms.shape[1])
    beta = np.zeros(terms.shape[1])

    def loss(at: Floats) -> float:
        logit = terms @ at
        fit = float((total * np.logaddexp(0, logit) - share_b * logit).sum())
        return fit + float(at @ ridge @ at) / 2

    now = loss(beta)
    for _ in range(_ROUNDS):
        chance = 0.5 * (1 + np.tanh(terms @ beta / 2))
        slope = terms.T @ (share_b - total * chance) - ridge @ beta
        curve = (terms * (total * chance * (1 - chance))[:, None]).T @ terms + ridge
        step = np.linalg.solve(curve, slope)
        while (then := loss(beta + step)) > now and float(np.abs(step).max()) > 1e-9:  # noqa: PLR2004 - rounding
            step /= 2
        beta += step
        if now - then < 1e-10:  # noqa: PLR2004 - rounding
            break
        now = then
    return np.asarray(0.5 * (1 + np.tanh(terms @ beta / 2)))
