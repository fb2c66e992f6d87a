"""Requests through stations of known capacity, one after the other, as columns."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latencytrace.model import Span, SpanKind, Stage, semconv
from latencytrace.model.cohorts.request_columns import (
    NUMBERS,
    STAGES,
    WORDS,
    KnownNumbers,
    RequestColumns,
    RequestTimes,
    Words,
)
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.simulation.cohorts import BEGIN_NS

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Station:
    """Servers that share one queue, each with one request at a time (M/M/c)."""

    stage: Stage
    servers: int
    mean_ms: float  # of an exponential time
    waits_as: Stage = Stage.QUEUE  # the stage that waiting for it is

    @property
    def most_per_s(self) -> float:
        """What it can do."""
        return self.servers * 1000 / self.mean_ms


def arrivals(random: np.random.Generator, rates: Sequence[tuple[float, float]]) -> Floats:
    """Poisson arrivals in seconds: so many a second, for so many seconds, one after the other."""
    times, begin = [], 0.0
    for rate, seconds in rates:
        times.append(begin + np.sort(random.random(random.poisson(rate * seconds))) * seconds)
        begin += seconds
    return np.concatenate(times)


def served(
    random: np.random.Generator, arrive_s: Floats, stations: Sequence[Station]
) -> RequestColumns:
    """Send requests through all stations: first come, first served at each."""
    stages_ns = np.zeros((len(arrive_s), len(STAGES)), np.int64)
    at_s = arrive_s
    for station in stations:
        work_s = random.exponential(station.mean_ms / 1000, len(arrive_s))
        began_s = _began(at_s, work_s, station.servers)
        waited = np.round((began_s - at_s) * 1e9).astype(np.int64)
        stages_ns[:, STAGES.index(station.waits_as)] += waited
        stages_ns[:, STAGES.index(station.stage)] += np.round(work_s * 1e9).astype(np.int64)
        at_s = began_s + work_s
    return columns_of(BEGIN_NS + np.round(arrive_s * 1e9).astype(np.int64), stages_ns)


def columns_of(start_ns: NDArray[np.int64], stages_ns: NDArray[np.int64]) -> RequestColumns:
    """Requests of which nothing but their stages is known."""
    nothing = KnownNumbers.of([None] * len(start_ns))
    words = {
        "service": Words.of(["rag"] * len(start_ns)),
        "route": Words.of(["POST /chat"] * len(start_ns)),
        "status": Words.of(["ok"] * len(start_ns)),
    }
    named: dict[str, Any] = dict.fromkeys(NUMBERS, nothing)
    named |= {name: words.get(name, Words.of([None] * len(start_ns))) for name in WORDS}
    return RequestColumns(
        trace_id=np.frombuffer(b"".join(one.to_bytes(16) for one in range(len(start_ns))), "V16"),
        start_ns=start_ns,
        duration_ns=stages_ns.sum(axis=1),
        stages_ns=stages_ns,
        **named,
    )


def times_of(columns: RequestColumns) -> RequestTimes:
    """Their times."""
    ok = [place for place, name in enumerate(columns.status.names) if name == "ok"]
    return RequestTimes(
        start_ns=columns.start_ns,
        duration_ns=columns.duration_ns,
        served=np.isin(columns.status.number, ok),
        weight=columns.weight,
    )


def _began(arrive_s: Floats, work_s: Floats, servers: int) -> Floats:
    """When each is begun, in whichever order they come."""
    free_s = [0.0] * servers
    began = np.empty_like(arrive_s)
    for place in np.argsort(arrive_s, kind="stable").tolist():
        began[place] = max(float(arrive_s[place]), heapq.heappop(free_s))
        heapq.heappush(free_s, float(began[place] + work_s[place]))
    return began


def spans_of(columns: RequestColumns, moved_ns: int) -> Iterator[Span]:
    """The spans of requests, so much later: their stages one after the other."""
    for row in range(len(columns)):
        trace_id, at_ns = f"{row + 1:032x}", int(columns.start_ns[row]) + moved_ns
        end_ns = at_ns + int(columns.duration_ns[row])
        yield one_span(trace_id, "a" * 16, start_ns=at_ns, end_ns=end_ns)
        for number, taken_ns in enumerate(columns.stages_ns[row].tolist()):
            if taken_ns:
                yield one_span(
                    trace_id,
                    f"{number + 1:016x}",
                    parent_id="a" * 16,
                    name=f"a span of {STAGES[number]}",
                    kind=SpanKind.INTERNAL,
                    start_ns=at_ns,
                    end_ns=at_ns + taken_ns,
                    attributes={semconv.STAGE: STAGES[number].value},
                )
                at_ns += taken_ns
