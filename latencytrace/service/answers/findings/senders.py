"""Traces that had to be mended: what that says of their senders."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from latencytrace.model import RepairKind
from latencytrace.service.answers.findings.finding import Finding, Sample, Verdict

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
    RepairKind.IMPLAUSIBLE: (
        "requests of a time or a length that cannot be",
        "look for an exporter that sends spans before they end, and for a clock that is years off",
    ),
    RepairKind.ORPHAN: ("requests with a span whose parent never came", _WHOLE_TRACES),
    RepairKind.ROOTLESS: ("requests whose caller's span never came", _WHOLE_TRACES),
}
_VALUES: Mapping[str, tuple[str, str]] = {  # a kind of `Mend`: what its values are, and what helps
    "text": (
        "texts that are no UTF-8, or that end within a character",
        "look for a limit of length that counts bytes, or for bytes that are set as a text",
    ),
    "value": (
        "values left out, for no number or text of OTLP's holds them",
        "look for whole numbers beyond 64 bits, and for values of another type than they say",
    ),
    "torn": (
        "values left out, for their lengths contradict each other",
        "look for an encoder of its own, or a proxy that cuts bodies off",
    ),
}


_REQUESTS = "latencytrace_requests_total"
_REPAIRED = "latencytrace_service_repaired_requests_total"
_ROOTLESS = "latencytrace_service_spans_rootless"
_MENDED_VALUES = "latencytrace_service_mended_values_total"
_MENDED_POSTS = "latencytrace_service_mended_posts_total"
_LABELS = {_REPAIRED: "kind", _MENDED_VALUES: "kind", _MENDED_POSTS: "service"}


def sender_findings(metrics: Iterable[Sample]) -> Iterator[Finding]:
    """Judge what the spans and traces of all senders lack; all of it since the start."""
    values: dict[str, dict[str, float]] = defaultdict(
        lambda: defaultdict(float)
    )  # by metric, then by its label
    for sample in metrics:
        values[sample.name][sample.labels.get(_LABELS.get(sample.name, ""), "")] += sample.value
    if rootless := sum(values[_ROOTLESS].values()):
        yield _note(
            f"spans of traces without a request so far: {rootless:,.0f}",
            "send the spans of who began the trace, or of a server in it, as well",
        )
    requests = sum(values[_REQUESTS].values())
    for kind, (what, fix) in _MENDED.items():
        if (number := values[_REPAIRED][kind]) > FEW_RATIO * requests:
            yield _note(f"{what}: {number:,.0f} of {requests:,.0f}", fix)
    senders = ", ".join(map(repr, values[_MENDED_POSTS]))
    for kind, (what, fix) in _VALUES.items():
        if number := values[_MENDED_VALUES][kind]:
            yield _note(f"{what}: {number:,.0f}; sent by {senders}", fix)


def _note(what: str, fix: str) -> Finding:
    return Finding(about=ABOUT, verdict=Verdict.NOTE, what=what, fix=fix)
