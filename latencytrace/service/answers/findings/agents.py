"""Reports of the agents that run on themselves, as the service has them."""

from collections.abc import Iterator, Sequence

from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.service.answers.findings.metrics_text import Sample

ABOUT = "agents that run"
SHORT_INSTANCE = 8
PREFIX = "latencytrace_agent_"
OVERDUE_S = 75  # an agent reports once a minute at least
REDUCTIONS = {
    "no_runtime_gaps": "pauses of the process are not watched for",
    "no_intervals": "neither pauses of the process nor work interleaved with answers is recorded",
    "no_cheap_calls": "pauses, interleaved work and the shortest calls are not recorded",
}


def agent_findings(metrics: Sequence[Sample]) -> Iterator[Finding]:
    """Judge every agent that reported within the last minutes."""
    for sample in metrics:
        if sample.name == "latencytrace_agent_info":
            yield from _agent(sample, [other for other in metrics if _of_same(other, sample)])


def _agent(info: Sample, metrics: Sequence[Sample]) -> Iterator[Finding]:
    labels = info.labels
    name = f"{labels['service']} (instance {labels['agent'][:SHORT_INSTANCE]}"
    name += f", process {labels['pid']})" if labels["pid"] else ")"
    counts = {sample.name: round(sample.value) for sample in metrics}
    sent = counts.get("latencytrace_agent_spans_sent_total", 0)
    what = f"{name}: latencytrace {labels['version']}, spans sent: {sent:,}"
    yield _finding(Verdict.FINE, what + _age(counts.get("latencytrace_agent_report_age_seconds")))
    if labels["provider"] != "ours":
        yield _finding(
            Verdict.NOTE,
            f"{name}: its own tracer provider makes the spans, at about eight times the price",
            "leave out what sets it, if latencytrace is to make them",
        )
    dropped = counts.get("latencytrace_agent_spans_dropped_total", 0)
    if dropped:
        yield _finding(
            Verdict.WRONG,
            f"{name}: spans dropped: {dropped:,}",
            "see its log for why; where the service was away or slow, raise "
            "OTEL_BSP_MAX_QUEUE_SIZE (65536)",
        )
    faults = counts.get("latencytrace_agent_faults_total", 0)
    if faults:
        yield _finding(
            Verdict.WRONG,
            f"{name}: errors of ours that the program did not see: {faults:,}",
            "please report them; its log names the first of each kind",
        )
    yield from _overhead(name, metrics)
    for sample in metrics:
        if sample.name == "latencytrace_agent_hook":
            yield from _hook(name, sample)


def _age(age_s: int | None) -> str:
    """Say how old an agent's report is; None: an older service does not know."""
    if age_s is None:
        return ""
    if age_s < OVERDUE_S:
        return f", last report {age_s} s ago"
    return f"; no report for {age_s} s: the process has ended, or does not reach the service"


def _overhead(name: str, metrics: Sequence[Sample]) -> Iterator[Finding]:
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
    yield _finding(
        Verdict.NOTE,
        f"{name}: to keep to {100 * budget:.3g} % of CPU time, {left_out}; "
        f"it took {100 * took:.2g} % of late",
        "export LATENCYTRACE_OVERHEAD=0.05 there to allow it more, or off for all detail",
    )


def _hook(name: str, sample: Sample) -> Iterator[Finding]:
    """Judge one hook: that it is applied is no news, that it is not may be."""
    hook, state, reason = (sample.labels[label] for label in ("hook", "state", "reason"))
    if state == "applied" and not reason:
        yield _finding(Verdict.FINE, f"{name}: hook {hook} is applied")
    elif state in {"applied", "refused"}:
        whole = "is not applied" if state == "refused" else "is applied in part"
        yield _finding(
            Verdict.WRONG,
            f"{name}: hook {hook} {whole}: {reason}",
            "install a version of the library that the hook knows, and report this one",
        )


def _of_same(sample: Sample, info: Sample) -> bool:
    return sample.name.startswith(PREFIX) and all(
        sample.labels.get(label) == info.labels.get(label) for label in ("service", "agent")
    )


def _finding(verdict: Verdict, what: str, fix: str | None = None) -> Finding:
    return Finding(about=ABOUT, verdict=verdict, what=what, fix=fix)
