"""Findings on a service: counters of spans taken and dropped, damage, disk, and held loops."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from latencytrace.model import Stage
from latencytrace.model.texts.units import share
from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.answers.findings.finding import Finding, Sample, Verdict

ABOUT = "service"
LOSSES: Mapping[str, tuple[str, str | None]] = {  # metric: what it counts, and what helps
    "latencytrace_service_spans_rejected_total": (
        "spans rejected, for their ids are none, or their post was torn",
        "see which sender makes ids of zeros, or cuts its posts; partial success said so",
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
PUT_OFF: Final = "429"  # nothing is lost by it: what a sender then drops, it counts
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
    PUT_OFF: (
        "posts that senders were asked to send again later, because too many waited",
        "where that goes on: run one more service, or sample in the senders",
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
                yield Finding.fine(ABOUT, f"spans that arrived since it started: {number:,}")
            else:
                yield Finding.note(ABOUT, "no span has arrived since it started")
        elif sample.name in LOSSES and number:
            what, fix = LOSSES[sample.name]
            yield Finding.wrong(ABOUT, f"{what}: {number:,}", fix)
        elif sample.name == "latencytrace_service_posts_refused_total" and number:
            code = sample.labels.get("code", "")
            what, fix = REFUSALS.get(code, ("posts refused", "see the service's log"))
            verdict = Verdict.NOTE if code in {SENDER_LEFT, PUT_OFF} else Verdict.WRONG
            yield Finding(
                about=ABOUT, verdict=verdict, what=f"{what}, {code}: {number:,}", fix=fix
            )


_NOTICED: Final = 0.05  # of the time of requests, from which on it is worth a word
_HELD_FIXES: Final = {  # by the beginning of the part's name
    "event loop held by ": "call what holds it by `asyncio.to_thread`, or make the route a `def`",
    "worker held by ": "start more workers or threads, or make what holds them shorter",
}


def held_findings(document: BreakdownDocument) -> Iterator[Finding]:
    """Say what most requests waited for before a thread could take them up."""
    for row in document["stages"]:
        for part in row["parts"] if row["stage"] == Stage.QUEUE else ():
            for beginning, fix in _HELD_FIXES.items():
                if part["name"].startswith(beginning) and part["share_ratio"] >= _NOTICED:
                    waited = share(part["share_ratio"])
                    yield Finding.note(
                        "requests",
                        f"requests wait {waited} of their time unread: {part['name']}",
                        fix,
                    )


LOOK_AFTER_THE_DISK = "Look after the disk, too"

_WITHOUT_LEDGER: Mapping[str, tuple[str, str]] = {  # by reason; the others are no fault
    "lost": (
        "spans that were acknowledged and are not in the store any more",
        "look below for the part of the store that is damaged",
    ),
    "refused": (
        "spans that were acknowledged and that the store cannot read",
        "please report it, with the service's log",
    ),
}


def custody_findings(metrics: Iterable[Sample]) -> Iterator[Finding]:
    """Judge what the service says of spans that are lost, and of damage on its disk."""
    for sample in metrics:
        match sample.name.removeprefix("latencytrace_service_"):
            case "spans_without_ledger_total" if sample.value:
                if known := _WITHOUT_LEDGER.get(sample.labels.get("reason", "")):
                    what, fix = known
                    yield Finding.wrong(ABOUT, f"{what}: {sample.value:,.0f}", fix)
            case "damaged_parts":
                yield Finding.wrong(
                    ABOUT,
                    f"part {sample.labels.get('part')} of the table {sample.labels.get('table')} "
                    f"is damaged and was set aside, {sample.value:,.0f} rows",
                    "delete it from the table's folder `detached`, or keep it for a repair. "
                    + LOOK_AFTER_THE_DISK,
                )
            case "journal_damaged_blocks_total":
                yield Finding.wrong(
                    ABOUT,
                    f"the journal's file {sample.labels.get('file')} is damaged in "
                    f"{sample.value:,.0f} places and was set aside",
                    "delete it from the data folder's `journal`, or keep it for a repair. "
                    + LOOK_AFTER_THE_DISK,
                )
            case _:
                pass
