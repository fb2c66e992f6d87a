"""Spans that a service acknowledged: whether it still has all of them."""

from collections.abc import Iterable, Iterator, Mapping

from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.service.answers.findings.metrics_text import Sample

ABOUT = "service"
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
                    yield _wrong(f"{what}: {sample.value:,.0f}", fix)
            case "damaged_parts":
                yield _wrong(
                    f"part {sample.labels.get('part')} of the table {sample.labels.get('table')} "
                    f"is damaged and was set aside, {sample.value:,.0f} rows",
                    "delete it from the table's folder `detached`, or keep it for a repair. "
                    + LOOK_AFTER_THE_DISK,
                )
            case "journal_damaged_blocks_total":
                yield _wrong(
                    f"the journal's file {sample.labels.get('file')} is damaged in "
                    f"{sample.value:,.0f} places and was set aside",
                    "delete it from the data folder's `journal`, or keep it for a repair. "
                    + LOOK_AFTER_THE_DISK,
                )
            case _:
                pass


def _wrong(what: str, fix: str) -> Finding:
    return Finding(about=ABOUT, verdict=Verdict.WRONG, what=what, fix=fix)
