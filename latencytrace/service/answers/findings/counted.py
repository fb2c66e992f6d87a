"""Counters of what a service took, dropped and refused."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.service.answers.findings.metrics_text import Sample

ABOUT = "service"
LOSSES: Mapping[str, tuple[str, str | None]] = {  # metric: what it counts, and what helps
    "latencytrace_service_spans_rejected_total": (
        "spans rejected, for their ids are none",
        "see which sender makes ids of zeros; partial success said so",
    ),
    "latencytrace_service_evicted_traces_total": (
        "traces attributed early, because too many were open",
        "run one more service, or sample in the senders",
    ),
    "latencytrace_service_late_traces_total": (
        "times that spans came too late for their trace",
        "look for a sender that keeps spans for more than 10 minutes",
    ),
    "latencytrace_service_outdated_traces_total": (
        "traces with a late span that stayed as they were, for their other spans are gone",
        "look for a sender that keeps spans for hours",
    ),
    "latencytrace_service_overflowed_requests_total": (
        "requests counted in the cohort `overflow`",
        "give the routes templates: too many services, routes and models are counted apart",
    ),
    "latencytrace_service_faulty_traces_total": (
        "traces set aside by a fault of ours",
        "please report it, with the service's log",
    ),
    "latencytrace_service_faulty_batches_total": (
        "batches of requests that metrics or objectives miss, by a fault of ours",
        "please report it, with the service's log",
    ),
    "latencytrace_service_spans_unaccounted": (
        "spans that are in no ledger, no open trace and no other count, by a fault of ours",
        "please report it, with the service's log",
    ),
    "latencytrace_service_recovered_total": (
        "traces that the service found without a ledger and attributed then, by a fault of ours",
        "nothing is missing now; please report it, with the service's log",
    ),
    "latencytrace_service_store_errors_total": (
        "times that the store could not take what was attributed",
        "see the service's log, and whether its disk is full",
    ),
}
SENDER_LEFT: Final = "408"
REFUSALS: Mapping[str, tuple[str, str]] = {  # by HTTP status
    "400": (
        "posts that were not OTLP",
        "the answer gave the sender the reason; look at what posts to this address",
    ),
    "404": (
        "posts of another kind than traces and metrics",
        "in the senders: export OTEL_LOGS_EXPORTER=none",
    ),
    SENDER_LEFT: (
        "posts whose sender left, or was too slow, before all of it had come",
        "those of programs that ended are no fault; of many, look at the senders' network",
    ),
    "413": ("posts that were too large", "in the senders: smaller batches"),
    "429": (
        "posts put off, because too much waited",
        "run one more service, or sample in the senders",
    ),
    "503": (
        "posts that met a store that failed",
        "see the service's log, and whether its disk is full",
    ),
}


def counted_findings(metrics: Iterable[Sample]) -> Iterator[Finding]:
    """Judge the service's own counters of what it took, dropped and refused."""
    for sample in metrics:
        number = round(sample.value)
        if sample.name == "latencytrace_service_spans_received_total":
            if number:
                yield _finding(Verdict.FINE, f"spans that arrived since it started: {number:,}")
            else:
                yield _finding(Verdict.NOTE, "no span has arrived since it started")
        elif sample.name in LOSSES and number:
            what, fix = LOSSES[sample.name]
            yield _finding(Verdict.WRONG, f"{what}: {number:,}", fix)
        elif sample.name == "latencytrace_service_posts_refused_total" and number:
            code = sample.labels.get("code", "")
            what, fix = REFUSALS.get(code, ("posts refused", "see the service's log"))
            verdict = Verdict.NOTE if code == SENDER_LEFT else Verdict.WRONG
            yield _finding(verdict, f"{what}, {code}: {number:,}", fix)


def _finding(verdict: Verdict, what: str, fix: str | None = None) -> Finding:
    return Finding(about=ABOUT, verdict=verdict, what=what, fix=fix)
