"""The disk that a service's data take, and what was dropped so that it is no more."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from math import isfinite

from latencytrace.model.texts.units import duration
from latencytrace.model.texts.units import size as size_text
from latencytrace.service.answers.findings.finding import Finding, Sample

ABOUT = "service"
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
    full_s = next((one.value for name, one in found if name == "store_full_seconds"), None)
    of_limit = f" of at most {size_text(limit)}" if isfinite(limit) else ""
    since = ", ".join(
        f"{_KEPT[table]} since {datetime.fromtimestamp(one.value, UTC):%Y-%m-%d}"
        for name, one in found
        if name == "store_oldest_timestamp_seconds"
        and (table := one.labels.get("table", "")) in _KEPT
    )
    kept = f"its data take {size_text(size)}{of_limit}{since and f'; {since}'}"
    if full_s is not None and isfinite(full_s) and size <= limit:
        kept = f"{kept}; full in {duration(full_s * 1e9)}, then the oldest are dropped"
    if size > limit:
        yield Finding.wrong(ABOUT, f"{kept}. What arrived today is never dropped", _FIX)
    else:
        yield Finding.fine(ABOUT, kept)
    for name, one in found:
        if name == "expired_rows_total" and one.labels.get("reason") == "size" and one.value:
            kind = _KEPT.get(one.labels.get("table", ""), "arrivals")
            yield Finding.note(
                ABOUT, f"rows of {kind} dropped early, for want of room: {one.value:,.0f}", _FIX
            )
