"""Cost of tracing to requests: the document, and the words of `doctor`."""

from collections.abc import Iterator
from typing import Final

from typing_extensions import TypedDict

from latencytrace.service.answers.findings.agents import ABOUT
from latencytrace.service.answers.findings.finding import Finding, Verdict

_NOTICED: Final = 0.05  # of a request's duration, from which on it is worth a word


class RouteOverheadDocument(TypedDict):
    """One route; null: there are too few requests of either group."""

    service: str
    route: str
    requests: int
    control_requests: int
    difference_ns: int | None
    low_ns: int | None
    high_ns: int | None


class OverheadDocument(TypedDict):
    """How much longer requests take for being traced in full; intervals hold at 95 %."""

    requests: int
    control_requests: int
    needed_control_requests: int | None  # null: there are enough
    difference_ns: int | None  # of medians, matched by route; null: not enough data
    low_ns: int | None
    high_ns: int | None
    control_ns: int | None  # the median of the control group
    routes: list[RouteOverheadDocument]
    sentence: str


def overhead_findings(found: OverheadDocument) -> Iterator[Finding]:
    """Judge what is known of it; without a control group there is nothing to say."""
    difference_ns, low_ns, control_ns = (
        found["difference_ns"], found["low_ns"], found["control_ns"],
    )  # fmt: skip
    if difference_ns is None or low_ns is None or not control_ns:
        if any(route["control_requests"] for route in found["routes"]):
            yield Finding.note(ABOUT, found["sentence"])
        return
    dear = low_ns > _NOTICED * control_ns
    yield Finding(
        about=ABOUT,
        verdict=Verdict.NOTE if dear else Verdict.FINE,
        what=found["sentence"],
        fix="lower LATENCYTRACE_OVERHEAD there, or name fewer LATENCYTRACE_HOOKS"
        if dear
        else None,
    )
