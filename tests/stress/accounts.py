"""The count at the end: what was acknowledged, and what became of it.

`compared` is the plain comparison of a sender's record with rows; `settled` waits and
`accounted` asks a service for all it needs, stops it, and reads its folder.
"""

import csv
import io
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from latencytrace.model import Stage
from tests.stress.sender import Record
from tests.stress.stored_rows import StoredRows
from tests.stress.stressed_service import StressedService
from tests.stress.workload import WORKER, Place, SentRequest, Workload

SINCE: Final = "since=2h"
SETTLED_WITHIN_S: Final = 120.0
UNCHANGED_S: Final = 15.0  # longer than the service waits for what comes late
STUCK_S: Final = 45.0  # longer than it waits for a root
LOOK_AGAIN_S: Final = 3.0  # after everything was counted: a second count would show
LOOKS_EVERY_S: Final = 0.5

REQUESTS: Final = "latencytrace_requests_total"
DURATIONS: Final = "latencytrace_request_duration_seconds_count"
OPEN_TRACES: Final = "latencytrace_service_open_traces"
WAITING_BYTES: Final = "latencytrace_service_waiting_bytes"
RECEIVED: Final = "latencytrace_service_spans_received_total"
ATTRIBUTED: Final = "latencytrace_service_spans_attributed_total"
OPEN_SPANS: Final = "latencytrace_service_spans_open"
WITHOUT: Final = "latencytrace_service_spans_without_ledger_total"
UNACCOUNTED: Final = "latencytrace_service_spans_unaccounted"
ROOTLESS: Final = "latencytrace_service_spans_rootless"
RECOVERED: Final = "latencytrace_service_recovered_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A ledger as the service tells it."""

    place: Place
    outermost: bool
    duration_ns: int
    ledger: Mapping[str, int]  # nanoseconds by stage, none of them 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What rows say of acknowledged requests; each set holds places."""

    missing: frozenset[Place]
    duplicated: frozenset[Place]
    unbalanced: frozenset[Place]  # the stages do not add up to the duration
    wrong_duration: frozenset[Place]
    incomplete: frozenset[Place]  # balanced, yet not the ledger of the spans that were sent
    misplaced: frozenset[Place]  # an inner request taken for the outermost, or the reverse
    unknown: frozenset[Place]  # nobody sent them


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The numbers of one run; `faults` says in words what does not add up."""

    requests: int
    acknowledged: int
    missing: int  # no ledger when asked
    undivided: int  # of these: every span is in the store, and nobody divided it
    spans_lost: int  # of these: not even all of its spans are in the store
    incomplete: int
    misplaced: int
    duplicated: int
    missing_inner: int  # of `missing`: requests of the worker
    refused: int  # answers that were no acknowledgement
    unanswered: int
    answered_p99_s: float
    counted: int  # by the metrics of the last process
    settled_s: float  # from the last answer until nothing changed any more
    faults: tuple[str, ...]


def compared(
    expected: Iterable[SentRequest], sent: Iterable[SentRequest], rows: Sequence[Row]
) -> Comparison:
    """Compare rows with a sender's record.

    Args:
        expected: Requests that must be there, once and right.
        sent: All requests that may be there.
        rows: What is there.
    """
    counts = Counter(row.place for row in rows)
    by_place = {row.place: row for row in rows}
    found = [(one, by_place[one.place]) for one in expected if one.place in by_place]
    known = {one.place for one in sent}
    return Comparison(
        missing=frozenset(one.place for one in expected if one.place not in by_place),
        duplicated=frozenset(place for place, count in counts.items() if count > 1),
        unbalanced=frozenset(
            row.place for row in rows if sum(row.ledger.values()) != row.duration_ns
        ),
        wrong_duration=frozenset(
            row.place for one, row in found if row.duration_ns != one.duration_ns
        ),
        incomplete=frozenset(row.place for one, row in found if row.ledger != one.ledger),
        misplaced=frozenset(row.place for one, row in found if row.outermost != one.outermost),
        unknown=frozenset(counts.keys() - known),
    )


def settled(service: StressedService, requests: int | None, *, damaged: bool = False) -> float:
    """Wait until the service has done what it will do, and return how many seconds it took.

    It looks at `/metrics` alone, which makes the service do nothing.

    Args:
        service: All spans were sent to it.
        requests: How many it will count; None: not known, for it was killed.
        damaged: Whether spans are missing, so that traces may stay open.
    """
    began_s = since_s = time.monotonic()
    before: tuple[float, ...] = ()
    while time.monotonic() - began_s < SETTLED_WITHIN_S:
        metrics = service.metrics()
        now = tuple(
            metrics.get(name, 0.0)
            for name in (REQUESTS, ATTRIBUTED, WAITING_BYTES, OPEN_TRACES, OPEN_SPANS)
        )
        if now != before:
            before, since_s = now, time.monotonic()
        patience_s = UNCHANGED_S
        if any(now[2:]) and not damaged:
            patience_s = STUCK_S
        elif now[0] == requests:
            patience_s = LOOK_AGAIN_S
        if time.monotonic() - since_s >= patience_s:
            break
        time.sleep(LOOKS_EVERY_S)
    return time.monotonic() - began_s


def accounted(
    service: StressedService,
    workload: Workload,
    record: Record,
    *,
    killed: bool = False,
    damaged: Collection[str] = (),
) -> Account:
    """Count everything, and stop the service.

    Args:
        service: All spans were sent to it.
        workload: They.
        record: What their sender was told.
        killed: Whether its metrics began anew meanwhile.
        damaged: Ids of traces of which spans may be missing, for their bytes were changed.
    """
    lost_posts = {post.number for post in workload.posts} - record.acknowledged
    unsure = {
        trace_id for number in lost_posts for trace_id in workload.posts[number].trace_ids
    }.union(damaged)
    sent = workload.requests
    expected = [one for one in sent if one.trace_id not in unsure]
    waited_s = settled(service, None if killed else len(expected), damaged=bool(damaged))
    metrics = service.metrics()
    rows = _rows(service, workload)
    counts = {
        service_name: _breakdown_count(service, service_name)
        for service_name in {None, *(one.service for one in sent)}
    }
    service.stop()
    stored = StoredRows.read(service.folder)

    found = compared(expected, sent, [row for row in rows if row.place[0] not in damaged])
    undivided = {
        place
        for place in found.missing
        if stored.spans_of.get(place[0], 0) == workload.spans_of[place[0]]
    }
    faults = [
        *_faults_of_rows(found),
        *_faults_of_folder(expected, stored),
        *_faults_of_sending(workload, record),
    ]
    if not unsure:
        faults += _faults_of_counts(expected, counts)
    faults += _faults_of_conservation(metrics, damaged=bool(damaged))
    if not (unsure or killed):
        faults += _faults_of_metrics(expected, metrics)
        faults += _faults_of_received(workload, record, metrics)
    inner = {one.place for one in expected if one.service == WORKER}
    return Account(
        requests=len(sent),
        acknowledged=len(expected),
        missing=len(found.missing),
        undivided=len(undivided),
        spans_lost=len(found.missing) - len(undivided),
        incomplete=len(found.incomplete),
        misplaced=len(found.misplaced),
        duplicated=len(found.duplicated),
        missing_inner=len(found.missing & inner),
        refused=sum(count for status, count in record.answers.items() if status != 200),
        unanswered=record.unanswered,
        answered_p99_s=round(record.slowest_s(), 3),
        counted=int(metrics.get(REQUESTS, 0)),
        settled_s=round(waited_s, 1),
        faults=tuple(faults),
    )


def _faults_of_conservation(metrics: Mapping[str, float], *, damaged: bool) -> list[str]:
    """Check the service's own account: every span that it acknowledged is somewhere.

    All of these metrics are required, of the process that answers last. Where spans are
    missing, what is left of their traces may stay open or be counted as dropped.
    """
    zero: tuple[str, ...] = (UNACCOUNTED, RECOVERED)
    if not damaged:
        zero += (OPEN_SPANS, ROOTLESS)
    there = (RECEIVED, ATTRIBUTED, OPEN_SPANS) if damaged else (RECEIVED, ATTRIBUTED)
    faults = [f"{name} is not there" for name in there if name not in metrics]
    faults += [
        f"{name} is {metrics.get(name, 'not there')}, not 0"
        for name in zero
        if metrics.get(name) != 0
    ]
    # A counter with labels has no sample until it has counted something.
    if metrics.get(WITHOUT) and not damaged:
        faults.append(f"{WITHOUT} is {metrics[WITHOUT]:g}, not 0")
    return faults


def _faults_of_received(
    workload: Workload, record: Record, metrics: Mapping[str, float]
) -> list[str]:
    """Compare the spans that one process received and attributed with those sent to it."""
    least, most = workload.span_count, workload.span_count + record.unanswered_spans
    return [
        f"{name} is {metrics.get(name, 'not there')}, not {least} to {most}"
        for name in (RECEIVED, ATTRIBUTED)
        if not least <= metrics.get(name, 0) <= most
    ]


def _faults_of_rows(found: Comparison) -> list[str]:
    """Say which ledgers are not as they must be."""
    named = {
        "acknowledged requests have no ledger": found.missing,
        "requests are there twice": found.duplicated,
        "ledgers do not add up to their duration": found.unbalanced,
        "durations are not the sender's": found.wrong_duration,
        "ledgers lack spans that were acknowledged": found.incomplete,
        "requests are inner ones taken for outermost, or the reverse": found.misplaced,
        "requests are there that nobody sent": found.unknown,
    }
    return [_some(text, places) for text, places in named.items() if places]


def _faults_of_folder(expected: Sequence[SentRequest], stored: StoredRows) -> list[str]:
    """Compare the table on disk with the sender's record."""
    counts = Counter(stored.requests)
    named = {
        "acknowledged requests are not in the table": {one.place for one in expected}
        - counts.keys(),
        "rows of the table are there twice": {
            place for place, count in counts.items() if count > 1
        },
    }
    return [_some(text, places) for text, places in named.items() if places]


def _faults_of_counts(
    expected: Sequence[SentRequest], counts: Mapping[str | None, int]
) -> list[str]:
    """Compare what `/breakdown` says with the sender's record."""
    wanted = Counter[str | None](one.service for one in expected)
    wanted[None] = sum(one.outermost for one in expected)
    return [
        f"/breakdown of {service or 'all'} says {count} requests, not {wanted[service]}"
        for service, count in counts.items()
        if count != wanted[service]
    ]


def _faults_of_metrics(expected: Sequence[SentRequest], metrics: Mapping[str, float]) -> list[str]:
    """Compare what Prometheus would scrape with the sender's record."""
    return [
        f"{name} is {metrics.get(name, 0):g}, not {len(expected)}"
        for name in (REQUESTS, DURATIONS)
        if metrics.get(name, 0) != len(expected)
    ]


def _faults_of_sending(workload: Workload, record: Record) -> list[str]:
    """Say what the receiver did to sound posts that it must not do."""
    refused = {
        status: count for status, count in record.answers.items() if status not in {200, 429, 503}
    }
    faults = [f"{count} posts were answered with {status}" for status, count in refused.items()]
    unsent = len(workload.posts) - len(record.acknowledged | record.given_up)
    if unsent:
        faults.append(f"{unsent} of {len(workload.posts)} posts were never sent to their end")
    if record.rejected_spans:
        faults.append(f"{record.rejected_spans} of {workload.span_count} spans were rejected")
    return faults


def _rows(service: StressedService, workload: Workload) -> list[Row]:
    """All ledgers: those of the outermost requests, and of the worker's inner ones."""
    rows = [_row(fields, outermost=True) for fields in _ledgers(service, SINCE)]
    if any(one.service == WORKER for one in workload.requests):
        outermost = {row.place for row in rows}
        inner = (
            _row(fields, outermost=False)
            for fields in _ledgers(service, f"{SINCE}&service={WORKER}")
        )
        rows += [row for row in inner if row.place not in outermost]
    return rows


def _ledgers(service: StressedService, cohort: str) -> Iterator[Mapping[str, str]]:
    answer = service.running.get(f"/api/v1/ledgers?{cohort}")
    assert answer.status_code == 200, answer.text
    yield from csv.DictReader(io.StringIO(answer.text))


def _row(fields: Mapping[str, str], *, outermost: bool) -> Row:
    times_ns = {stage.value: int(fields[f"{stage}_ns"]) for stage in Stage}
    return Row(
        place=(fields["trace_id"], fields["span_id"]),
        outermost=outermost,
        duration_ns=int(fields["duration_ns"]),
        ledger={stage: time_ns for stage, time_ns in times_ns.items() if time_ns},
    )


def _breakdown_count(service: StressedService, name: str | None) -> int:
    of_service = f"&service={name}" if name else ""
    count = service.running.ask(f"/breakdown?{SINCE}{of_service}")["requests"]
    assert isinstance(count, int)
    return count


def _some(text: str, places: Collection[Place]) -> str:
    examples = ", ".join(sorted(trace_id for trace_id, _ in places)[:3])
    return f"{len(places)} {text}: {examples}{', …' if len(places) > 3 else ''}"
