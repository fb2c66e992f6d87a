"""The health of the service and of the agents that send to it: what is lost, and what helps."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry

from latencytrace.service.answers.findings.agents import agent_findings, sender_findings
from latencytrace.service.answers.findings.counted import counted_findings, custody_findings
from latencytrace.service.answers.findings.finding import Finding, Sample, Verdict
from latencytrace.service.answers.findings.overhead import latest_overhead
from latencytrace.service.web.pages.cohort_bar import written
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts

_SERVICE = "latencytrace_service_"
_AGENT = "latencytrace_agent_"
_GAUGES = {
    "overhead_ratio": "took", "overhead_budget_ratio": "budget",
    "reduction_steps": "reduction", "sampling_ratio": "sampled",
}  # fmt: skip


@dataclass(slots=True, kw_only=True)
class AgentRow:
    """An agent that reported within the last minutes."""

    service: str
    instance: str
    version: str
    process: str
    sent: int = 0
    dropped: int = 0
    cpu_s: float = 0.0
    took: float | None = None  # of what its budget is of, lately
    budget: float | None = None  # that it may take
    reduction: float = 0  # steps by which it lowers the detail of traces; 0: none
    sampled: float = 1.0  # share of the traces that it records
    hooked: list[str] = field(default_factory=list)
    not_hooked: list[tuple[str, str]] = field(default_factory=list)  # and why


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The spans that were received, and where they are: the parts add up to the whole."""

    received: int
    parts: Sequence[tuple[str, int]]

    @property
    def is_balanced(self) -> bool:
        """Tell whether nothing is missing."""
        return self.received == sum(count for _, count in self.parts)


def health_pages(
    parts: Parts, metrics: CollectorRegistry, unready: Callable[[], str | None]
) -> APIRouter:
    """Answer at `/health`.

    Args:
        unready: The reason why it is not ready; None: it is.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/health")
    def health_page(request: Request) -> Response:
        samples = list(collected(metrics))
        files = parts.files(
            request, [Export("agents.csv", lambda: [asdict(one) for one in agents(samples)])]
        )
        if isinstance(files, Response):
            return files
        context = {
            **files,
            "title": "Health",
            "path": request.url.path,
            "asked": written(request),
            "unready": unready(),
            "account": account(samples),
            "agents": agents(samples),
            "overhead": latest_overhead(parts.service.store, parts.service.now_ns),
            "wrong": [one for one in findings(samples) if one.verdict is Verdict.WRONG],
        }
        return parts.renderer.page("health.html", context)

    return router


def collected(metrics: CollectorRegistry) -> Iterator[Sample]:
    """Read every sample that `/metrics` shows."""
    for family in metrics.collect():
        for one in family.samples:
            yield Sample(name=one.name, labels=one.labels, value=one.value)


def findings(samples: Sequence[Sample]) -> list[Finding]:
    """What `latencytrace doctor` says of the same metrics."""
    return [
        *counted_findings(samples),
        *custody_findings(samples),
        *sender_findings(samples),
        *agent_findings(samples),
    ]


def account(samples: Iterable[Sample]) -> Account:
    """Where the spans are that were received."""
    named: dict[str, int] = defaultdict(int)
    without: dict[str, int] = {}
    for sample in samples:
        if sample.name == f"{_SERVICE}spans_without_ledger_total":
            without[sample.labels["reason"]] = round(sample.value)
        elif sample.name.startswith(_SERVICE):
            named[sample.name.removeprefix(_SERVICE)] += round(sample.value)
    reasons = [
        (f"without a ledger: {reason.replace('_', ' ')}", count)
        for reason, count in without.items()
        if count
    ]
    return Account(
        received=named["spans_received_total"],
        parts=(
            ("in a ledger", named["spans_attributed_total"]),
            ("open", named["spans_open"]),
            ("waiting for their root", named["spans_rootless"]),
            *reasons,
        ),
    )


def agents(samples: Iterable[Sample]) -> list[AgentRow]:
    """The agents that report, in order of service."""
    found: dict[tuple[str, str], AgentRow] = {}
    ours = [sample for sample in samples if sample.name.startswith(_AGENT)]
    for sample in ours:
        if sample.name == f"{_AGENT}info":
            labels = sample.labels
            found[_key(labels)] = AgentRow(
                service=labels["service"],
                instance=labels["agent"],
                version=labels["version"],
                process=labels["pid"],
            )
    for sample in ours:
        row = found.get(_key(sample.labels)) if "agent" in sample.labels else None
        if row is not None:
            _note(row, sample)
    return sorted(found.values(), key=lambda row: (row.service, row.instance))


def _note(row: AgentRow, sample: Sample) -> None:
    match sample.name.removeprefix(_AGENT):
        case "spans_sent_total":
            row.sent = round(sample.value)
        case "spans_dropped_total":
            row.dropped = round(sample.value)
        case "cpu_seconds_total":
            row.cpu_s += sample.value
        case "hook" if sample.labels["state"] == "applied":
            row.hooked.append(sample.labels["hook"])
        case "hook" if sample.labels["state"] == "refused":
            row.not_hooked.append((sample.labels["hook"], sample.labels["reason"]))
        case name if name in _GAUGES:
            setattr(row, _GAUGES[name], sample.value)
        case _:
            pass


def _key(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels["service"], labels["agent"]
