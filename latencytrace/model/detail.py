"""The detail in which a request was traced."""

from enum import StrEnum


class TraceDetail(StrEnum):
    """The parts that the trace of a request lacks, since its agent kept its own cost down."""

    FULL = "full"
    NO_RUNTIME_GAPS = "no_runtime_gaps"  # pauses of its process were not watched
    NO_INTERVALS = "no_intervals"  # and without what was interleaved with its answer
    NO_CHEAP_CALLS = "no_cheap_calls"  # nor spans of calls that are as short as their tracing
    SERVER_SPAN = "server_span"  # there is nothing but its own span
    CONTROL = "control"  # the same, on purpose: the others are held against it

    @property
    def has_stages(self) -> bool:
        """Tell whether its ledger says what it spent its time on."""
        return self not in {TraceDetail.SERVER_SPAN, TraceDetail.CONTROL}


REDUCED = tuple(one for one in TraceDetail if one is not TraceDetail.FULL)
WITHOUT_STAGES = tuple(one for one in TraceDetail if not one.has_stages)


def least(one: TraceDetail | None, other: TraceDetail | None) -> TraceDetail | None:
    """Return that of two which lacks more; None: full detail."""
    if one is other:
        return one
    reduced = [detail for detail in (one, other) if detail is not None]
    return max(reduced, key=REDUCED.index, default=None)


def detail_named(text: object) -> TraceDetail:
    """Return the detail of this name; full where there is none."""
    try:
        return TraceDetail(text) if isinstance(text, str) else TraceDetail.FULL
    except ValueError:
        return TraceDetail.FULL
