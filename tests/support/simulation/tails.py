"""Simulated cohorts whose tail has a known cause, or none, as columns.

An hour of requests to four instances. Every stage has a spread of its own, and drifts, so that
requests resemble their neighbours. An incident changes some of them: a share of all, or most in
a stretch of time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.tail.groups import Split
from latencytrace.analysis.tail.tail import tail_of
from latencytrace.model import Stage
from latencytrace.model.cohorts.breakdown import CauseKind, StageExcess, Tail
from latencytrace.model.cohorts.request_columns import (
    STAGES,
    AttributeColumns,
    Durations,
    KnownNumbers,
    RequestColumns,
    Words,
)

START_NS = 1_763_690_000 * 10**9
HOUR_NS = 3_600 * 10**9
MS = 1e6
INSTANCES = ("pod-0", "pod-1", "pod-2", "pod-3")
TENANTS = tuple(f"tenant-{number}" for number in range(8))
USUAL_MS = {  # median, and spread of the logarithm
    Stage.TOKENIZE: (2, 0.3),
    Stage.EMBED: (12, 0.25),
    Stage.RETRIEVE: (60, 0.3),
    Stage.RERANK: (25, 0.2),
    Stage.DATABASE: (15, 0.4),
    Stage.PREFILL: (90, 0.25),
    Stage.DECODE: (500, 0.2),
    Stage.DETOKENIZE: (3, 0.3),
    Stage.UNATTRIBUTED: (8, 0.4),
}

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass
class Made:
    """Requests while they are made: an incident changes them in place."""

    chance: np.random.Generator
    moment: Floats  # within the hour, rising, from 0 to 1
    stages_ms: dict[Stage, Floats]
    input_tokens: Floats
    concurrency: Floats
    queue_depth: Floats
    cold: Mask
    instance: NDArray[np.int64]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.moment)

    def some(self, least: float, most: float) -> Mask:
        """A share of the requests: anywhere, or most of those in a stretch of time."""
        share = self.chance.uniform(least, most)
        if self.chance.random() < 0.5:
            return self.chance.random(self.count) < share
        length = min(1.0, share / 0.8)
        begin = self.chance.uniform(0, 1 - length)
        within = (self.moment >= begin) & (self.moment < begin + length)
        return within & (self.chance.random(self.count) < 0.8)

    def add(self, stage: Stage, which: Mask, length_ms: Floats) -> None:
        """Make a stage of some of them longer."""
        before = self.stages_ms.setdefault(stage, np.zeros(self.count))
        before[which] += length_ms[which]


def drift(chance: np.random.Generator, count: int, spread: float) -> Floats:
    """A factor that wanders: neighbours have about the same."""
    near = max(count // 400, 2)
    steps = chance.normal(0, 1, count // near + 2)
    for place in range(1, len(steps)):
        steps[place] = 0.8 * steps[place - 1] + 0.6 * steps[place]
    return np.asarray(
        np.exp(spread * np.interp(np.arange(count) / near, np.arange(len(steps)), steps))
    )


def _spread(chance: np.random.Generator, count: int, spread: float) -> Floats:
    """Factors around 1, of one of the shapes that service times have."""
    match chance.integers(3):
        case 0:
            return np.asarray(np.exp(chance.normal(0, spread, count)))
        case 1:
            shape = 1 / spread**2
            return chance.gamma(shape, 1 / shape, count)
        case _:
            return 1 - spread + chance.exponential(spread, count)


def _made(chance: np.random.Generator, count: int, *, by_tokens: bool) -> Made:
    tokens = np.round(600 * np.exp(chance.normal(0, 0.35, count)))
    load = drift(chance, count, 0.2)
    wider = chance.uniform(0.7, 1.5)
    stages = {
        stage: median * _spread(chance, count, spread * wider) * drift(chance, count, 0.08)
        for stage, (median, spread) in USUAL_MS.items()
    }
    if by_tokens:
        stages[Stage.PREFILL] *= tokens / 600
    waits = chance.random(count) < 0.5
    stages[Stage.QUEUE] = np.where(waits, chance.exponential(12, count) * load, 0.0)
    return Made(
        chance=chance,
        moment=np.sort(chance.random(count)),
        stages_ms=stages,
        input_tokens=tokens,
        concurrency=chance.poisson(6 * load).astype(np.float64) + 1,
        queue_depth=chance.poisson(0.5 * load).astype(np.float64),
        cold=np.zeros(count, np.bool_),
        instance=chance.integers(0, len(INSTANCES), count),
    )


def _longer_input(made: Made) -> None:
    which = made.some(0.02, 0.06)
    made.input_tokens[which] *= made.chance.uniform(8, 20)
    made.stages_ms[Stage.PREFILL][which] *= made.input_tokens[which] / 600


def _waiting(made: Made) -> None:
    which = made.some(0.02, 0.08)
    ahead = 1 + made.chance.poisson(made.chance.uniform(5, 20), made.count)
    made.queue_depth[which] += ahead[which]
    made.concurrency[which] += ahead[which]
    made.add(Stage.QUEUE, which, ahead.astype(np.float64) * made.chance.uniform(120, 300))


def _dependency(made: Made) -> None:
    stage = (Stage.RETRIEVE, Stage.DATABASE, Stage.REMOTE_MODEL)[made.chance.integers(3)]
    spread = np.exp(made.chance.normal(0, 0.3, made.count))
    made.add(stage, made.some(0.02, 0.1), made.chance.uniform(800, 3000) * spread)


def _stage(made: Made) -> None:
    stage = (Stage.RERANK, Stage.EMBED, Stage.DECODE, Stage.GUARDRAIL)[made.chance.integers(4)]
    spread = np.exp(made.chance.normal(0, 0.3, made.count))
    made.add(stage, made.some(0.02, 0.1), made.chance.uniform(800, 3000) * spread)


def _instance(made: Made) -> None:
    bad = made.instance == made.chance.integers(len(INSTANCES))
    slow = bad & (made.chance.random(made.count) < made.chance.uniform(0.15, 1.0))
    factor = made.chance.uniform(2.5, 5)
    for stage in (Stage.PREFILL, Stage.DECODE, Stage.RERANK):
        made.stages_ms[stage][slow] *= factor


def _runtime(made: Made) -> None:
    length_ms = made.chance.uniform(700, 2500) * np.exp(made.chance.normal(0, 0.4, made.count))
    made.add(Stage.RUNTIME, made.some(0.015, 0.06), length_ms)


def _cold_start(made: Made) -> None:
    which = made.some(0.012, 0.04)
    made.cold[which] = True
    length_ms = made.chance.uniform(2000, 8000) * np.exp(made.chance.normal(0, 0.3, made.count))
    made.add(Stage.LOAD, which, length_ms)


INCIDENTS: Mapping[CauseKind, Callable[[Made], None]] = {
    CauseKind.STAGE: _stage,
    CauseKind.INPUT: _longer_input,
    CauseKind.WAITING: _waiting,
    CauseKind.INSTANCE: _instance,
    CauseKind.RUNTIME: _runtime,
    CauseKind.COLD_START: _cold_start,
    CauseKind.DEPENDENCY: _dependency,
}


def cohort(seed: int, kind: CauseKind | None, count: int) -> RequestColumns:
    """A cohort with an incident of a kind; None: without any, nothing depends on anything."""
    chance = np.random.default_rng(seed)
    made = _made(chance, count, by_tokens=kind is not None)
    if kind is not None:
        INCIDENTS[kind](made)
    stages_ns = np.zeros((count, len(STAGES)), np.int64)
    for stage, length_ms in made.stages_ms.items():
        stages_ns[:, STAGES.index(stage)] = (length_ms * MS).astype(np.int64)
    return RequestColumns(
        trace_id=np.frombuffer(chance.bytes(16 * count), "V16"),
        start_ns=START_NS + (made.moment * HOUR_NS).astype(np.int64),
        duration_ns=stages_ns.sum(axis=1),
        stages_ns=stages_ns,
        after_ns=_unknown(count),
        time_to_first_token_ns=_unknown(count),
        time_per_output_token_ns=_unknown(count),
        input_tokens=_numbers(made.input_tokens),
        cached_input_tokens=_unknown(count),
        output_tokens=_numbers(chance.poisson(120, count)),
        batch_size=_unknown(count),
        queue_depth=_numbers(made.queue_depth),
        concurrency=_numbers(made.concurrency),
        preemptions=_unknown(count),
        cold_start=_numbers(made.cold),
        service=_words(("rag",), np.zeros(count)),
        instance=_words(INSTANCES, made.instance),
        # A release in the middle of the hour, and a model that is asked for in stretches.
        version=_words(("1.0", "1.1"), made.moment > chance.uniform(0.2, 0.8)),
        route=_words(("POST /chat",), np.zeros(count)),
        model=_words(("small", "large"), drift(chance, count, 1.0) > 1),
        status=_words(("ok",), np.zeros(count)),
        finish_reason=_words(("stop", "length"), chance.random(count) < 0.1),
        attributes=_attributes(chance, count),
    )


def read(columns: RequestColumns, split: Split, seed: int) -> RequestColumns:
    """The rows that a store answers with to the question for the bands of a split."""
    drawn = np.random.default_rng([seed, 1]).random(len(columns))
    rows = np.zeros(len(columns), np.bool_)
    for band in split.bands():
        within = (columns.duration_ns >= band.at_least_ns) & (
            columns.duration_ns <= band.at_most_ns
        )
        rows |= within & (drawn <= band.share_ratio)
    return taken(columns, rows)


def taken(columns: RequestColumns, rows: Mask) -> RequestColumns:
    """Some of the requests."""
    parts: dict[str, object] = {}
    for name in RequestColumns.__slots__:
        column = getattr(columns, name)
        if isinstance(column, KnownNumbers):
            parts[name] = KnownNumbers(value=column.value[rows], known=column.known[rows])
        elif isinstance(column, Words):
            parts[name] = replace(column, number=column.number[rows])
        elif isinstance(column, np.ndarray):
            parts[name] = column[rows]
    kept = columns.attributes
    if kept is not None:
        those = rows[kept.row]
        parts["attributes"] = AttributeColumns(
            row=(np.cumsum(rows) - 1)[kept.row[those]],
            key=replace(kept.key, number=kept.key.number[those]),
            value=replace(kept.value, number=kept.value.number[those]),
        )
    return replace(columns, **parts)  # type: ignore[arg-type] # each is of its own type


def durations_of(columns: RequestColumns) -> Durations:
    """How long they took, as a store answers."""
    return Durations(ns=columns.duration_ns, weight=columns.weight)


def tail(seed: int, kind: CauseKind | None, count: int = 20_000, quantile: float = 0.99) -> Tail:
    """The tail of such a cohort, as the service finds it."""
    columns = cohort(seed, kind, count)
    split = Split.of(durations_of(columns), quantile)
    return tail_of(read(columns, split, seed), split, quantile)


def _numbers(values: Floats | NDArray[np.int64] | Mask) -> KnownNumbers:
    return KnownNumbers(value=values.astype(np.int64), known=np.ones(len(values), np.bool_))


def _unknown(count: int) -> KnownNumbers:
    return KnownNumbers(value=np.zeros(count, np.int64), known=np.zeros(count, np.bool_))


def _words(names: tuple[str, ...], number: Floats | NDArray[np.int64] | Mask) -> Words:
    return Words(names=names, number=number.astype(np.int32))


def _attributes(chance: np.random.Generator, count: int) -> AttributeColumns:
    """A tenant and a region of each request, an id of its own, and a feature in stretches."""
    tenant = np.minimum(chance.geometric(0.35, count) - 1, len(TENANTS) - 1)
    stretch = (drift(chance, count, 1.0) > 1.5).astype(np.int64)
    names = (*TENANTS, "eu", "us", "on", "off", *(f"user-{number}" for number in range(count)))
    values = np.column_stack(
        [tenant, 8 + chance.integers(0, 2, count), 10 + stretch, 12 + np.arange(count)]
    )
    return AttributeColumns(
        row=np.repeat(np.arange(count), 4),
        key=_words(("tenant", "region", "feature", "user"), np.tile(np.arange(4), count)),
        value=Words(names=names, number=values.ravel().astype(np.int32)),
    )


def ends(found: StageExcess) -> tuple[float, float]:
    """The interval of a stage's excess, of a tail that is large enough for one."""
    assert found.low_ns is not None
    assert found.high_ns is not None
    return found.low_ns, found.high_ns
