"""The disk that a service's data take, and what was dropped so that it is no more."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import isfinite

from latencytrace.service.answers.findings.finding import Finding, Sample, Verdict

ABOUT = "service"
_GB = 10**9
_KEPT = {"requests": "ledgers", "spans": "spans"}
_FIX = "raise LATENCYTRACE_MAX_DISK, or keep fewer spans: --keep-spans"


def disk_findings(metrics: Iterable[Sample]) -> Iterator[Finding]:
    """Judge what a service says of its tables."""
    found = [(one.name.removeprefix("latencytrace_service_"), one) for one in metrics]
    sizes = [one.value for name, one in found if name == "store_bytes"]
    if not sizes:
        return  # a service of an older version, or none has looked yet
    limit = next((one.value for name, one in found if name == "store_limit_bytes"), float("inf"))
    size = sum(sizes)
    of_limit = f" of at most {limit / _GB:,.1f} GB" if isfinite(limit) else ""
    since = ", ".join(
        f"{_KEPT[table]} since {datetime.fromtimestamp(one.value, UTC):%Y-%m-%d}"
        for name, one in found
        if name == "store_oldest_timestamp_seconds"
        and (table := one.labels.get("table", "")) in _KEPT
    )
    kept = f"its data take {size / _GB:,.1f} GB{of_limit}{since and f'; {since}'}"
    if size > limit:
        yield Finding(
            about=ABOUT,
            verdict=Verdict.WRONG,
            what=f"{kept}. What arrived today is never dropped",
            fix=_FIX,
        )
    else:
        yield Finding(about=ABOUT, verdict=Verdict.FINE, what=kept)
    for name, one in found:
        if name == "expired_rows_total" and one.labels.get("reason") == "size" and one.value:
            kind = _KEPT.get(one.labels.get("table", ""), "arrivals")
            yield Finding(
                about=ABOUT,
                verdict=Verdict.NOTE,
                what=f"rows of {kind} dropped early, for want of room: {one.value:,.0f}",
                fix=_FIX,
            )
