"""Reports of the agents that run on themselves, as the service has them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from latencytrace.model import RepairKind
from latencytrace.model.texts.units import figure
from latencytrace.service.answers.findings.finding import Finding, Sample, Verdict

ABOUT = "agents that run"
SHORT_INSTANCE = 8
MOST_NAMED = 3  # agents of one cause
PREFIX = "latencytrace_agent_"
OVERDUE_S = 75  # an agent reports once a minute at least
PRESSED, MUCH_PRESSED = 0.25, 0.5  # of the last minute, from which on a wait is worth a word
_PRESSED = {
    "cpu": (
        "a processor",
        "allow it more processors, or take away what runs beside it: its times are longer for it",
    ),
    "memory": ("memory", "allow it more memory: it is read back from where it was put aside"),
    "io": ("a disk", "see what reads and writes there: models that are read, swap, logs"),
}
REDUCTIONS = {
    "no_runtime_gaps": "pauses of the process are not watched for",
    "no_intervals": "neither pauses of the process nor work interleaved with answers is recorded",
    "no_cheap_calls": "pauses, interleaved work and the shortest calls are not recorded",
}


class _Cause(NamedTuple):
    """One thing that is so of agents, but for its number."""

    verdict: Verdict
    what: str  # with `{number}`, of all these agents, where it counts
    fix: str | None = None


_Found = tuple[_Cause, int]


def agent_findings(metrics: Sequence[Sample]) -> Iterator[Finding]:
    """Judge the agents that reported within the last minutes: each cause once, with its agents."""
    return _findings(metrics, _agent)


def pressure_findings(metrics: Sequence[Sample], service: str | None) -> Iterator[Finding]:
    """Say what the threads of a service waited for of late; None: of any."""
    own = [one for one in metrics if service in {None, one.labels.get("service")}]
    return _findings(own, lambda _, of_agent: ((cause, 0) for cause in _pressure(of_agent)))


def _findings(
    metrics: Sequence[Sample], found: Callable[[Sample, Sequence[Sample]], Iterator[_Found]]
) -> Iterator[Finding]:
    causes: dict[_Cause, dict[str, int]] = {}
    for sample in metrics:
        if sample.name == "latencytrace_agent_info":
            name, of_agent = _name(sample), [one for one in metrics if _of_same(one, sample)]
            for cause, number in found(sample, of_agent):
                causes.setdefault(cause, {})[name] = number
    for cause, agents in causes.items():
        what = cause.what.format(number=f"{sum(agents.values()):,}")
        yield Finding(
            about=ABOUT,
            verdict=cause.verdict,
            what=f"{_named(tuple(agents))}: {what}",
            fix=cause.fix,
        )


def _named(agents: tuple[str, ...]) -> str:
    more = len(agents) - MOST_NAMED
    return ", ".join(agents[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _name(info: Sample) -> str:
    labels = info.labels
    process = f", process {labels['pid']}" if labels["pid"] else ""
    return f"{labels['service']} (instance {labels['agent'][:SHORT_INSTANCE]}{process})"


def _agent(info: Sample, metrics: Sequence[Sample]) -> Iterator[_Found]:
    counts = {sample.name: round(sample.value) for sample in metrics}
    age = _age(counts.get("latencytrace_agent_report_age_seconds"))
    sent = counts.get("latencytrace_agent_spans_sent_total", 0)
    version = _literal(info.labels["version"])
    yield _Cause(Verdict.FINE, f"latencytrace {version}, spans sent: {{number}}{age}"), sent
    if info.labels["provider"] != "ours":
        yield (
            _Cause(
                Verdict.NOTE,
                "its own tracer provider makes the spans, at about eight times the price",
                "leave out what sets it, if latencytrace is to make them",
            ),
            0,
        )
    if dropped := counts.get("latencytrace_agent_spans_dropped_total", 0):
        yield (
            _Cause(
                Verdict.WRONG,
                "spans dropped: {number}",
                "see its log for why; where the service was away or slow, raise "
                "OTEL_BSP_MAX_QUEUE_SIZE (65536)",
            ),
            dropped,
        )
    if faults := counts.get("latencytrace_agent_faults_total", 0):
        yield (
            _Cause(
                Verdict.WRONG,
                "errors of ours that the program did not see: {number}",
                "please report them; its log names the first of each kind",
            ),
            faults,
        )
    for cause in (*_overhead(metrics), *_pressure(metrics), *_hooks(metrics)):
        yield cause, 0


def _literal(text: str) -> str:
    """A text as it stands, where causes are formatted."""
    return text.replace("{", "{{").replace("}", "}}")


def _age(age_s: int | None) -> str:
    """Say how old an agent's report is; None: an older service does not know."""
    if age_s is None:
        return ""
    if age_s < OVERDUE_S:
        return f", last report {age_s} s ago"
    return f"; no report for {age_s} s: the process has ended, or does not reach the service"


def _overhead(metrics: Sequence[Sample]) -> Iterator[_Cause]:
    """Judge what an agent leaves out to keep its budget."""
    values = {sample.name.removeprefix(PREFIX): sample.value for sample in metrics}
    reduction = next((one for one in metrics if one.name == f"{PREFIX}reduction_steps"), None)
    if reduction is None or not reduction.value:
        return
    budget, took = values.get("overhead_budget_ratio", 0), values.get("overhead_ratio", 0)
    sampled = values.get("sampling_ratio", 1)
    left_out = REDUCTIONS.get(reduction.labels["detail"], "less detail is recorded")
    if sampled < 1:
        left_out = f"one of {round(1 / sampled)} traces that begin there is recorded"
    yield _Cause(
        Verdict.NOTE,
        f"to keep to {figure(100 * budget)} % of CPU time, {left_out}; "
        f"it took {figure(100 * took)} % of late",
        "export LATENCYTRACE_OVERHEAD=0.05 there to allow it more, or off for all detail",
    )


def _pressure(metrics: Sequence[Sample]) -> Iterator[_Cause]:
    """Say what its threads waited for of late, as Linux tells it."""
    for sample in metrics:
        if sample.name == f"{PREFIX}pressure_ratio" and sample.value >= PRESSED:
            what, fix = _PRESSED.get(sample.labels["resource"], (None, None))
            if what is not None:
                part = "half" if sample.value >= MUCH_PRESSED else "a quarter"  # many are one line
                text = f"threads waited for {what} in more than {part} of the last minute"
                yield _Cause(Verdict.NOTE, text, fix)


def _hooks(metrics: Sequence[Sample]) -> Iterator[_Cause]:
    """Judge hooks: all applied ones are one line, each other hook is one."""
    applied = []
    for sample in metrics:
        if sample.name != "latencytrace_agent_hook":
            continue
        hook, state, reason = (sample.labels[label] for label in ("hook", "state", "reason"))
        if state == "applied" and not reason:
            applied.append(hook)
        elif state in {"applied", "refused"}:
            whole = "is not applied" if state == "refused" else "is applied in part"
            yield _Cause(
                Verdict.WRONG,
                _literal(f"hook {hook} {whole}: {reason}"),
                "install a version of the library that the hook knows, and report this one",
            )
    if applied:
        yield _Cause(Verdict.FINE, _literal(f"hooks applied: {', '.join(sorted(applied))}"))


def _of_same(sample: Sample, info: Sample) -> bool:
    return sample.name.startswith(PREFIX) and all(
        sample.labels.get(label) == info.labels.get(label) for label in ("service", "agent")
    )


_SENDERS = "senders"
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
        yield Finding.note(
            _SENDERS,
            f"spans of traces without a request so far: {rootless:,.0f}",
            "send the spans of the client that began the trace, or of a server in it, as well",
        )
    requests = sum(values[_REQUESTS].values())
    for kind, (what, fix) in _MENDED.items():
        if (number := values[_REPAIRED][kind]) > FEW_RATIO * requests:
            yield Finding.note(_SENDERS, f"{what}: {number:,.0f} of {requests:,.0f}", fix)
    senders = ", ".join(map(repr, values[_MENDED_POSTS]))
    for kind, (what, fix) in _VALUES.items():
        if number := values[_MENDED_VALUES][kind]:
            yield Finding.note(_SENDERS, f"{what}: {number:,.0f}; sent by {senders}", fix)
