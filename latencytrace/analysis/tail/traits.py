"""Traits that the tail has more often than the reference, corrected for looking at many.

A trait is a word (`instance` is `pod-3`), a kept attribute, or a number beyond a bound that few
requests of the reference exceed. Requests resemble their neighbours, so that a hundred of them
need not say more than one: the variance of each share is estimated with the correlation that
the trait shows within stretches of time.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis import weighted
from latencytrace.analysis.tail.groups import Groups, Mask
from latencytrace.analysis.tokens.counts import (
    BATCH_SIZE,
    CACHED,
    FINISH_REASON,
    INPUT,
    MODEL,
    OUTPUT,
)
from latencytrace.analysis.weighted import holm
from latencytrace.model.cohorts.breakdown import SetApart
from latencytrace.model.cohorts.request_columns import AttributeColumns, KnownNumbers

LEVEL = 0.05  # of all traits together: how often chance alone names one
LEAST_DIFFERENCE = 0.1  # of the two shares
LEAST_REQUESTS = 5  # that have a trait
MOST_TRAITS = 5_000  # the most frequent ones are looked at
BOUNDS = (0.75, 0.9, 0.95, 0.99)  # quantiles of the reference

WORDS = ("service", "instance", "version", "route", "model", "status", "finish_reason")
NUMBERS = (
    "input_tokens", "cached_input_tokens", "output_tokens", "batch_size", "queue_depth",
    "concurrency", "preemptions",
)  # fmt: skip
# Of which few are as bad as many of the others.
_BETTER_HIGH = frozenset(
    {
        "cached_input_tokens", "engine_prefix_cache_hit_percent",
        "engine_speculative_acceptance_percent",
    }
)  # fmt: skip
_COLUMNS = {
    key: said.reported
    for said in (INPUT, OUTPUT, CACHED, MODEL, FINISH_REASON, BATCH_SIZE)
    for key in said.keys
}
COLD_START = "cold_start"
_TRUE = "true"

Floats = NDArray[np.float64]
# (traits, blocks, 2): of the tail and of the reference; of weighted requests, as evidence
Counts = NDArray[np.number[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trait:
    """A trait of some requests, and which rows those are."""

    apart: SetApart
    rows: Callable[[], Mask]


_Named = tuple[str, str, Callable[[], Mask]]


def traits(groups: Groups) -> tuple[Trait, ...]:
    """Find what sets the tail apart.

    Returns:
        What the tail has more often by at least a tenth of its requests, and by more than
        chance: the family-wise error over all that was looked at is at most `LEVEL` (Holm).
        The greatest difference first; of a number one bound, the best.
    """
    named: list[_Named] = []
    of_each: list[Counts] = []
    for names, counts in _candidates(groups):
        seen = counts.sum(axis=(1, 2)) >= LEAST_REQUESTS
        named += [one for one, enough in zip(names, seen, strict=True) if enough]
        of_each.append(counts[seen])
    if not named:
        return ()
    every: Counts = np.concatenate(of_each)
    frequent = np.argsort(-every.sum(axis=(1, 2)), kind="stable")[:MOST_TRAITS]
    tail, reference, p_values = _compared(every[frequent], groups)
    corrected = holm(p_values)
    clear = (tail - reference >= LEAST_DIFFERENCE) & (corrected <= LEVEL)
    found = [
        Trait(
            apart=SetApart(
                key=named[frequent[place]][0],
                value=named[frequent[place]][1],
                tail_share_ratio=float(tail[place]),
                reference_share_ratio=float(reference[place]),
                p_value=float(corrected[place]),
            ),
            rows=named[frequent[place]][2],
        )
        for place in np.flatnonzero(clear)
    ]
    found.sort(key=lambda one: one.apart.reference_share_ratio - one.apart.tail_share_ratio)
    return tuple(_each_once(found, {*NUMBERS, *groups.columns.engine}))


def _each_once(found: Sequence[Trait], numbers: Collection[str]) -> Iterator[Trait]:
    """One bound of each number, and no attribute of which a column says the same."""
    columns = {one.apart.key for one in found}
    seen: set[str] = set()
    for one in found:
        is_again = one.apart.key in numbers and one.apart.key in seen
        if is_again or _COLUMNS.get(one.apart.key) in columns:
            continue
        seen.add(one.apart.key)
        yield one


def _candidates(groups: Groups) -> Iterator[tuple[list[_Named], Counts]]:
    """Traits by name, with how many requests of each block and group have them."""
    columns = groups.columns
    for key in WORDS:
        words = getattr(columns, key)
        names: list[_Named] = [
            (key, name, partial(np.equal, words.number, number))
            for number, name in enumerate(words.names)
        ]
        yield names, _counts(groups, words.number, len(names))
    for key in (*NUMBERS, *columns.engine):
        numbers = columns.numbers(key)
        bounded = list(_bounded(key, numbers, groups))
        for one in bounded:
            yield [one], _counts(groups, np.where(one[2](), 0, -1), 1)
    cold = columns.cold_start.known & (columns.cold_start.value == 1)
    yield [(COLD_START, _TRUE, lambda: cold)], _counts(groups, np.where(cold, 0, -1), 1)
    if columns.attributes is not None:
        yield _attributes(groups, columns.attributes)


def _bounded(key: str, numbers: KnownNumbers, groups: Groups) -> Iterator[_Named]:
    """Bounds that few requests of the reference exceed, or that few of them fall below."""
    known = groups.reference & numbers.known
    values, weight = numbers.value[known], weighted.of(known, groups.columns.weight)
    if not len(values):
        return
    if key in _BETTER_HIGH:
        levels = [1 - level for level in BOUNDS]
        for bound in _bounds(values, levels, weight, math.floor):
            yield key, f"at most {bound}", partial(_holds, numbers, np.less_equal, bound)
    for bound in _bounds(values, BOUNDS, weight, math.ceil):
        yield key, f"over {bound}", partial(_holds, numbers, np.greater, bound)


def _bounds(
    values: NDArray[np.int64],
    levels: Sequence[float],
    weight: weighted.Weight,
    to_rank: Callable[[float], int],
) -> list[int]:
    """Quantiles that are values themselves, each once."""
    last = weighted.number(len(values), weight) - 1
    return sorted(set(weighted.at_ranks(values, [to_rank(last * one) for one in levels], weight)))


def _holds(numbers: KnownNumbers, compare: Callable[..., Mask], bound: int) -> Mask:
    return numbers.known & compare(numbers.value, bound)


def _attributes(groups: Groups, kept: AttributeColumns) -> tuple[list[_Named], Counts]:
    """The kept attributes that enough of the compared requests have."""
    compared = (groups.tail | groups.reference)[kept.row]
    often = np.bincount(kept.value.number[compared], minlength=len(kept.value.names))
    row, key, value = (
        column[compared & (often >= LEAST_REQUESTS)[kept.value.number]]
        for column in (kept.row, kept.key.number, kept.value.number)
    )
    pair = key.astype(np.int64) * len(kept.value.names) + value
    pairs, number = np.unique(pair, return_inverse=True)
    named: list[_Named] = []
    for one in pairs.tolist():
        of_key, of_value = divmod(one, len(kept.value.names))
        rows = partial(_having, kept, of_key, of_value, len(groups.columns))
        named.append((kept.key.names[of_key], kept.value.names[of_value], rows))
    counts = np.bincount(
        (number * groups.blocks + groups.block[row]) * 2 + groups.reference[row],
        weighted.of(row, groups.evidence),
        minlength=len(pairs) * groups.blocks * 2,
    )
    return named, counts.reshape(len(pairs), groups.blocks, 2)


def _having(kept: AttributeColumns, key: int, value: int, rows: int) -> Mask:
    having = np.zeros(rows, np.bool_)
    having[kept.row[(kept.key.number == key) & (kept.value.number == value)]] = True
    return having


def _counts(groups: Groups, number: NDArray[np.int32] | NDArray[np.int64], names: int) -> Counts:
    """How many compared requests have each number; below 0 they have none."""
    which = (groups.tail | groups.reference) & (number >= 0)
    place = number[which].astype(np.int64) * groups.blocks + groups.block[which]
    found = np.bincount(
        place * 2 + groups.reference[which],
        weighted.of(which, groups.evidence),
        minlength=names * groups.blocks * 2,
    )
    return found.reshape(names, groups.blocks, 2)


def _compared(counts: Counts, groups: Groups) -> tuple[Floats, Floats, Floats]:
    """The shares of the tail and of the reference, and the p-value of their difference."""
    of_block = _counts(groups, np.zeros(len(groups.tail), np.int64), 1)[0].astype(np.float64)
    tail_n, usual_n = of_block.sum(axis=0)
    tail, usual = (counts.sum(axis=1) / (tail_n, usual_n)).T
    pooled = counts.sum(axis=(1, 2)) / (tail_n + usual_n)
    evidence = tail_n * _divergence(tail, pooled) + usual_n * _divergence(usual, pooled)
    p_values = np.exp(-evidence / _design_effect(counts, of_block, tail, usual))
    return tail, usual, np.where(tail > usual, p_values, 1.0)


def _divergence(share: Floats, expected: Floats) -> Floats:
    """Kullback and Leibler's, of one yes or no from another.

    `exp(-n * divergence)` bounds the chance of such a share among n (Chernoff): it errs on the
    side of doubt, in small counts too.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        yes = np.where(share > 0, share * np.log(share / expected), 0.0)
        no = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - expected)), 0.0)
    return np.asarray(yes + no)


def _design_effect(counts: Counts, of_block: Floats, tail: Floats, usual: Floats) -> Floats:
    """How much more the difference of the shares varies than that of unrelated requests.

    Each block is taken to have an effect of its own: the correlation within blocks is that of
    what remains when the shares of the two groups are subtracted.
    """
    tail_n, usual_n = of_block.sum(axis=0)
    left = counts[:, :, 0] + counts[:, :, 1] - tail[:, None] * of_block[:, 0]
    left = left - usual[:, None] * of_block[:, 1]
    squares = tail_n * tail * (1 - tail) + usual_n * usual * (1 - usual)
    sizes = of_block.sum(axis=1)
    pairs = (sizes * (sizes - 1)).sum() / sizes.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = ((left**2).sum(axis=1) - squares) / (squares * pairs)
    correlation = np.clip(np.nan_to_num(correlation), 0.0, 1.0)
    uneven = ((of_block[:, 0] / tail_n - of_block[:, 1] / usual_n) ** 2).sum()
    independent = 1 / tail_n + 1 / usual_n
    effect: Floats = (1 - correlation) + correlation * uneven / independent
    return np.maximum(effect, 1.0)
