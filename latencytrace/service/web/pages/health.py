"""The health of the service and of the agents that send to it: what is lost, and what helps."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import CollectorRegistry

from latencytrace.model.texts.units import count, day, duration, size
from latencytrace.service.answers.findings.agents import agent_findings, sender_findings
from latencytrace.service.answers.findings.counted import counted_findings, custody_findings
from latencytrace.service.answers.findings.finding import Finding, Sample, Verdict
from latencytrace.service.answers.findings.overhead import latest_overhead
from latencytrace.service.web.pages.cohort_bar import written
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.pace import Pace, Said, collected
from latencytrace.service.web.pages.parts import Parts

_SERVICE = "latencytrace_service_"
_AGENT = "latencytrace_agent_"
_KEPT = {"spans": "spans", "requests": "ledgers"}
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
    took: float | None = None  # share of CPU that it took lately
    budget: float | None = None  # share that it may take
    reduction: float = 0  # steps by which it lowers the detail of traces; 0: none
    sampled: float = 1.0  # share of the traces that it records
    pressure: list[tuple[str, float]] = field(default_factory=list)  # by resource, share of time
    hooked: list[str] = field(default_factory=list)
    not_hooked: list[tuple[str, str]] = field(default_factory=list)  # and why


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentGroup:
    """The agents of one version within one service."""

    agents: Sequence[AgentRow]  # at least one

    def sum(self, name: str) -> float:
        """A count of all together."""
        return float(sum(getattr(one, name) for one in self.agents))

    @property
    def pressure(self) -> list[tuple[str, float]]:
        """The longest wait of any agent for each resource, as a share of time."""
        found: dict[str, float] = {}
        for resource, ratio in (each for one in self.agents for each in one.pressure):
            found[resource] = max(ratio, found.get(resource, 0.0))
        return list(found.items())

    @property
    def busiest(self) -> AgentRow:
        """The agent that takes the largest share of its budget."""
        return max(self.agents, key=lambda one: (one.took or 0) / (one.budget or inf))

    @property
    def hooked(self) -> list[str]:
        """The applied hooks; a hook that not all agents have comes with their number."""
        return [_of_all(name, count, self.agents) for name, count in self._counted("hooked")]

    @property
    def not_hooked(self) -> list[str]:
        """The hooks that are not applied, and why."""
        return [
            _of_all(f"{name}: {why}", count, self.agents)
            for (name, why), count in self._counted("not_hooked")
        ]

    def _counted(self, name: str) -> list[tuple[Any, int]]:
        return sorted(Counter(one for row in self.agents for one in getattr(row, name)).items())


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
    parts: Parts, metrics: CollectorRegistry, unready: Callable[[], str | None], pace: Pace
) -> APIRouter:
    """Answer at `/health`.

    Args:
        unready: The reason why it is not ready; None: it is.
        pace: Returns how many spans arrive.
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
        found = findings(samples)
        wrong = [one for one in found if one.verdict is Verdict.WRONG]
        counts, reason = account(samples), unready()
        context = {
            **files,
            "title": "Health",
            "path": request.url.path,
            "asked": written(request),
            "is_bad": bool(reason or wrong),
            "state": state(reason, len(wrong), counts.received),
            "facts": list(facts(samples, pace(), parts.service.now_ns())),
            "account": counts,
            "groups": groups(agents(samples)),
            "overhead": latest_overhead(parts.service.store, parts.service.now_ns),
            "wrong": wrong,
            "notes": [one for one in found if one.verdict is Verdict.NOTE and one.fix],
        }
        return parts.renderer.page("health.html", context)

    return router


def state(unready: str | None, faults: int, received: int) -> str:
    """How the service is, in one sentence."""
    if unready:
        return f"Not ready: {unready}"
    if faults:
        return f"{count(faults, 'fault')}: what to do stands below"
    return "Ready; nothing is lost" if received else "Ready; no span has arrived since it started"


def facts(samples: Sequence[Sample], said: Said, now_ns: int) -> Iterator[tuple[str, str]]:
    """Yield what is known of the service itself: a name and a text each."""
    known = {one.name.removeprefix(_SERVICE): one.value for one in samples if not one.labels}
    began_s = known.get("process_start_time_seconds")
    if began_s is not None:
        yield "Up for", duration(now_ns - began_s * 1e9)
    received = count(said.received, "span")
    yield "Arriving", received if said.per_s is None else f"{said.per_s} spans/s"
    waiting = f"{size(said.waiting_bytes)} to be stored" if said.waiting_bytes else "nothing"
    yield "Waiting", f"{waiting}; {count(round(known.get('open_traces', 0)), 'trace')} open"
    yield "Lost", f"{said.lost:,}" if said.lost else "none"
    sizes = [one.value for one in samples if one.name == f"{_SERVICE}store_bytes"]
    if sizes:
        yield "Disk", _disk(sum(sizes), known)
    oldest = {
        one.labels["table"]: day(round(one.value * 1e9), now_ns)
        for one in samples
        if one.name == f"{_SERVICE}store_oldest_timestamp_seconds"
    }
    kept = [f"{text} {oldest[table]}" for table, text in _KEPT.items() if table in oldest]
    if kept:
        yield "Oldest day", ", ".join(kept)


def _disk(size_bytes: float, known: Mapping[str, float]) -> str:
    limit_bytes = known.get("store_limit_bytes", inf)
    if not isfinite(limit_bytes):
        return f"{size(size_bytes)}, without a limit"
    text = f"{size(size_bytes)} of {size(limit_bytes)}"
    full_s = known.get("store_full_seconds")
    if full_s is None:
        return f"{text}; a forecast needs a whole day"
    if not isfinite(full_s):
        return f"{text}; never full at this pace"
    return f"{text}; full in {duration(full_s * 1e9)}, then the oldest are dropped"


def groups(found: Iterable[AgentRow]) -> list[AgentGroup]:
    """The agents by service and version, in their order."""
    by: dict[tuple[str, str], list[AgentRow]] = defaultdict(list)
    for one in found:
        by[one.service, one.version].append(one)
    return [AgentGroup(agents=by[key]) for key in sorted(by)]


def _of_all(text: str, number: int, agents: Sequence[AgentRow]) -> str:
    return text if number == len(agents) else f"{text} ({number} of {len(agents)})"


def findings(samples: Sequence[Sample]) -> list[Finding]:
    """The findings of `latencytrace doctor` for the same metrics."""
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
        case "pressure_ratio":
            row.pressure.append((sample.labels["resource"], sample.value))
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
