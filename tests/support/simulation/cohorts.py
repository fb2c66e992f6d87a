"""Cohorts of a system whose every request is drawn from a known law, as columns."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import Stage
from latencytrace.model.cohorts.request_columns import (
    NUMBERS,
    STAGES,
    WORDS,
    KnownNumbers,
    RequestColumns,
    Words,
)

BEGIN_NS = 1_700_000_000_000_000_000
MS = 1_000_000
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class System:
    """What sets one system apart from another; the defaults are the usual one.

    A request searches, prefills its prompt, and decodes its answer. All of that takes longer
    while others are under way. Noise of neighbours is alike as far as `likeness` says.
    """

    noise: float = 0.3  # the standard deviation of the logarithm
    likeness: float = 0.0  # of one request's noise and the next one's
    prompt: float = 500.0  # tokens, the median
    answer: float = 100.0
    others: float = 3.0  # under way at once
    retrieve_ms: float = 40.0
    decode_ms: float = 2.0  # a token
    prefill_ms: float = 0.1  # a token
    slow_ratio: float = 0.0  # of requests, drawn at random, that take `slow_times` as long
    slow_times: float = 1.5
    worst_ratio: float = 0.0  # of requests, the slowest, that take `slow_times` as long
    failing_ratio: float = 0.0  # of requests, that fail at once
    requests_per_s: float = 50.0


def slower(system: System, times: float) -> System:
    """The same with all of its work so many times as slow."""
    return replace(
        system,
        retrieve_ms=system.retrieve_ms * times,
        decode_ms=system.decode_ms * times,
        prefill_ms=system.prefill_ms * times,
    )


def cohort(random: np.random.Generator, system: System, requests: int) -> RequestColumns:
    """Draw requests of a system, in order of start."""
    noise = np.exp(system.noise * _alike(random, requests, system.likeness))
    prompt = _tokens(random, system.prompt, requests)
    answer = _tokens(random, system.answer, requests)
    others = random.poisson(system.others, requests)
    held_up = MS * noise * (1 + 0.1 * others)
    stages = {
        Stage.RETRIEVE: system.retrieve_ms * held_up * np.exp(random.normal(0, 0.3, requests)),
        Stage.PREFILL: system.prefill_ms * held_up * prompt,
        Stage.DECODE: system.decode_ms * held_up * answer,
    }
    whole = np.sum(list(stages.values()), axis=0)
    times = np.where(random.random(requests) < system.slow_ratio, system.slow_times, 1.0)
    if system.worst_ratio:
        times[whole > np.quantile(whole, 1 - system.worst_ratio)] = system.slow_times
    failed = random.random(requests) < system.failing_ratio
    stages_ns = np.zeros((requests, len(STAGES)), np.int64)
    for stage, taken in stages.items():
        stages_ns[:, STAGES.index(stage)] = np.where(failed, MS, taken * times)
    start_ns = np.cumsum(random.exponential(1e9 / system.requests_per_s, requests))
    known = {
        "input_tokens": prompt,
        "output_tokens": answer,
        "concurrency": others + 1,
    }
    named: dict[str, Any] = dict.fromkeys(WORDS, _word("one", requests))
    named["status"] = Words(names=("ok", "error"), number=failed.astype(np.int32))
    named |= {name: _numbers(known.get(name), requests) for name in NUMBERS}
    return RequestColumns(
        trace_id=np.frombuffer(random.bytes(16 * requests), "V16"),
        start_ns=BEGIN_NS + start_ns.astype(np.int64),
        duration_ns=stages_ns.sum(axis=1),
        stages_ns=stages_ns,
        **named,
    )


def with_incident(
    random: np.random.Generator,
    columns: RequestColumns,
    *,
    begin_ratio: float = 0.4,
    end_ratio: float = 0.55,
    extra_ms: float = 900.0,
    hit_ratio: float = 1.0,
) -> RequestColumns:
    """The same requests, of which a share waits in a queue within a stretch of time."""
    count = len(columns)
    is_hit = random.random(count) < hit_ratio
    is_hit[: int(begin_ratio * count)] = False
    is_hit[int(end_ratio * count) :] = False
    waited_ns = (MS * extra_ms * np.exp(random.normal(0, 0.5, count)) * is_hit).astype(np.int64)
    stages_ns = columns.stages_ns.copy()
    stages_ns[:, STAGES.index(Stage.QUEUE)] += waited_ns
    return replace(columns, stages_ns=stages_ns, duration_ns=columns.duration_ns + waited_ns)


def together(random: np.random.Generator, *parts: RequestColumns) -> RequestColumns:
    """Requests of several cohorts as one, in a random order, at the times of the first drawn."""
    requests = sum(map(len, parts))
    order = random.permutation(requests)

    def joined(name: str) -> NDArray[np.int64]:
        return np.concatenate([getattr(part, name) for part in parts])[order]

    named: dict[str, Any] = {}
    for name in NUMBERS:
        columns = [getattr(part, name) for part in parts]
        named[name] = KnownNumbers(
            value=np.concatenate([column.value for column in columns])[order],
            known=np.concatenate([column.known for column in columns])[order],
        )
    for name in WORDS:
        words = [
            columns.names[number]
            for columns in (getattr(part, name) for part in parts)
            for number in columns.number
        ]
        named[name] = Words.of(words[place] for place in order)
    return replace(
        parts[0],
        trace_id=np.concatenate([part.trace_id for part in parts])[order],
        start_ns=np.sort(np.concatenate([part.start_ns for part in parts])),
        duration_ns=joined("duration_ns"),
        stages_ns=joined("stages_ns"),
        **named,
    )


def with_words(columns: RequestColumns, name: str, words: list[str]) -> RequestColumns:
    """The same requests with other words in one column."""
    changed: dict[str, Any] = {name: Words.of(words)}
    return replace(columns, **changed)


def _alike(random: np.random.Generator, requests: int, likeness: float) -> Floats:
    """Normal numbers of which each resembles the one before."""
    drawn = random.normal(size=requests)
    if likeness:
        rest = float(np.sqrt(1 - likeness**2))
        for place in range(1, requests):
            drawn[place] = likeness * drawn[place - 1] + rest * drawn[place]
    return drawn


def _tokens(random: np.random.Generator, median: float, requests: int) -> NDArray[np.int64]:
    return np.maximum(median * np.exp(random.normal(0, 0.6, requests)), 1).astype(np.int64)


def _numbers(values: NDArray[np.int64] | None, requests: int) -> KnownNumbers:
    nothing = np.zeros(requests, np.int64)
    if values is None:
        return KnownNumbers(value=nothing, known=nothing.astype(np.bool_))
    return KnownNumbers(value=values.astype(np.int64), known=np.ones(requests, np.bool_))


def _word(word: str, requests: int) -> Words:
    return Words(names=(word,), number=np.zeros(requests, np.int32))
