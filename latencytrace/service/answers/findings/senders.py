"""Traces that had to be mended: what that says of those who send spans."""

from collections.abc import Iterable, Iterator, Mapping

from latencytrace.model import RepairKind
from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.service.answers.findings.metrics_text import Sample

ABOUT = "senders"
FEW_RATIO = 0.01  # of requests; one restart loses as many
_WHOLE_TRACES = (
    "a larger OTEL_BSP_MAX_QUEUE_SIZE where spans are dropped; sample and filter whole traces "
    "(OTEL_TRACES_SAMPLER=parentbased_always_on)"
)
_ONE_CLOCK = (
    "export OTEL_RESOURCE_ATTRIBUTES=host.name=… for senders that share a machine's clock; "
    "for others synchronise the clocks"
)
_MENDED: Mapping[str, tuple[str, str]] = {  # repair: what its requests are, and what helps
    RepairKind.CLOCK_SKEW: (
        "requests whose senders' clocks seem to differ",
        _ONE_CLOCK,
    ),
    RepairKind.ORPHAN: ("requests with a span whose parent never came", _WHOLE_TRACES),
    RepairKind.ROOTLESS: ("requests whose caller's span never came", _WHOLE_TRACES),
}


def sender_findings(metrics: Iterable[Sample]) -> Iterator[Finding]:
    """Judge, whoever's spans they are, what many traces lack; all of it since the start."""
    requests = 0.0
    mended: dict[str, float] = {}
    for sample in metrics:
        match sample.name:
            case "latencytrace_requests_total":
                requests += sample.value
            case "latencytrace_service_repaired_requests_total":
                mended[sample.labels.get("kind", "")] = sample.value
            case "latencytrace_service_spans_rootless" if sample.value:
                yield _note(
                    f"spans of traces without a request so far: {sample.value:,.0f}",
                    "send the spans of who began the trace, or of a server in it, as well",
                )
            case _:
                pass
    for kind, (what, fix) in _MENDED.items():
        if (number := mended.get(kind, 0)) > FEW_RATIO * requests:
            yield _note(f"{what}: {number:,.0f} of {requests:,.0f}", fix)


def _note(what: str, fix: str) -> Finding:
    return Finding(about=ABOUT, verdict=Verdict.NOTE, what=what, fix=fix)
