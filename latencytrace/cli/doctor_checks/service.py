"""The service that runs: whether it answers and takes spans, and what it dropped or refused."""

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus

from latencytrace.cli.doctor_checks.agents import agent_findings
from latencytrace.cli.doctor_checks.custody import custody_findings
from latencytrace.cli.doctor_checks.finding import Finding, Verdict
from latencytrace.cli.processes.local_service import (
    free_port,
    host_and_port,
    is_loopback,
    listens,
    service_is_installed,
)
from latencytrace.cli.source.metrics_text import Sample, samples
from latencytrace.cli.source.reading import service_at
from latencytrace.errors import SettingsError
from latencytrace.service.net.http_client import ask
from latencytrace.settings import AgentSettings

ABOUT = "service"
TIMEOUT_S = 5.0
SEND_TOKEN = 'export OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20TOKEN"'  # noqa: S105 - none
SHOW_TOKEN = "export LATENCYTRACE_TOKEN=… as the service has it"  # noqa: S105 - no token
LOSSES: Mapping[str, tuple[str, str | None]] = {  # metric: what it counts, and what helps
    "latencytrace_service_spans_rejected_total": (
        "spans rejected, for their ids are none",
        "see which sender makes ids of zeros; their answers say so",
    ),
    "latencytrace_service_evicted_traces_total": (
        "traces attributed early, because too many were open",
        "run one more service, or sample in the senders",
    ),
    "latencytrace_service_late_traces_total": (
        "times that spans came too late for their trace",
        "look for a sender that keeps spans for more than 10 minutes",
    ),
    "latencytrace_service_outdated_traces_total": (
        "traces with a late span that stayed as they were, for their other spans are gone",
        "look for a sender that keeps spans for hours",
    ),
    "latencytrace_service_overflowed_requests_total": (
        "requests counted in the cohort `overflow`",
        "give the routes templates: there are too many services, routes and models",
    ),
    "latencytrace_service_faulty_traces_total": (
        "traces set aside by a fault of ours",
        "please report it, with the service's log",
    ),
    "latencytrace_service_spans_unaccounted": (
        "spans that are in no ledger, no open trace and no other count, by a fault of ours",
        "please report it, with the service's log",
    ),
    "latencytrace_service_recovered_total": (
        "traces that the service found without a ledger and attributed then, by a fault of ours",
        "nothing is missing now; please report it, with the service's log",
    ),
    "latencytrace_service_store_errors_total": (
        "times that the store could not take what was attributed",
        "see the service's log, and whether its disk is full",
    ),
}
REFUSALS: Mapping[str, tuple[str, str]] = {  # by HTTP status
    "400": (
        "posts that were not OTLP",
        "the answer gave the sender the reason; look at what posts to this address",
    ),
    "404": (
        "posts of another kind than traces and metrics",
        "in the senders: export OTEL_LOGS_EXPORTER=none",
    ),
    "413": ("posts that were too large", "in the senders: smaller batches"),
    "429": (
        "posts put off, because too much waited",
        "run one more service, or sample in the senders",
    ),
    "503": (
        "posts that met a store that failed",
        "see the service's log, and whether its disk is full",
    ),
}


def service_findings(
    url: str, token: str | None, agent: AgentSettings | None
) -> Iterator[Finding]:
    """Judge the service, and the receiver that the agent would send to.

    Args:
        url: Where reading commands ask.
        token: What they show.
        agent: Where spans would go; None: its settings cannot be used.
    """
    there = service_at(url) is not None
    if not there:
        yield _absent(url, agent)
    else:
        yield from _service(url, token)
    if agent is not None and not agent.disabled and (there or listens(agent.traces_url)):
        yield _receiver(agent, _takes_at(url, token) if there else None)


def _absent(url: str, agent: AgentSettings | None) -> Finding:
    if agent is not None and listens(agent.traces_url):
        return _note(
            f"none answers at {url}, though something listens at {agent.traces_url}",
            "export LATENCYTRACE_URL=… if the service answers elsewhere",
        )
    if listens(url):
        return _wrong(
            f"something that is no latencytrace service has taken {url}",
            f"export LATENCYTRACE_URL=http://127.0.0.1:{free_port()}, where `run` starts one then",
        )
    startable = service_is_installed() and is_loopback(url)
    if startable and (agent is None or is_loopback(agent.endpoint)):
        return _note(
            f"none runs at {url}; `latencytrace run` starts one for as long as it runs",
            "latencytrace serve, for a program that calls instrument() itself",
        )
    return _wrong(f"none answers at {url}", "latencytrace serve, or export LATENCYTRACE_URL=…")


def _service(url: str, token: str | None) -> Iterator[Finding]:
    """One that answers: its version, whether it is ready, what it dropped."""
    status, body = _get(f"{url}/openapi.json", token)
    if status == HTTPStatus.UNAUTHORIZED:
        yield _wrong(f"the service at {url} asks for a token", SHOW_TOKEN)
        return
    version = _version(body)
    if version is None:
        yield _wrong(
            f"what answers at {url} is no latencytrace service", "export LATENCYTRACE_URL=…"
        )
        return
    status, body = _get(f"{url}/readyz", token)
    if status == HTTPStatus.OK:
        yield _fine(f"latencytrace {version} answers at {url} and is ready")
    else:
        yield _wrong(
            f"latencytrace {version} at {url} is not ready: {body.strip()}", "see its log"
        )
    status, body = _get(f"{url}/metrics", token)
    if status == HTTPStatus.OK:
        metrics = list(samples(body))
        yield from _counted(metrics)
        yield from custody_findings(metrics)
        yield from agent_findings(metrics)


def _counted(metrics: list[Sample]) -> Iterator[Finding]:
    """Judge the service's own counters of what it took, dropped and refused."""
    for sample in metrics:
        number = round(sample.value)
        if sample.name == "latencytrace_service_spans_received_total":
            if number:
                yield _fine(f"spans that arrived since it started: {number:,}")
            else:
                yield _note("no span has arrived since it started")
        elif sample.name in LOSSES and number:
            what, fix = LOSSES[sample.name]
            yield _wrong(f"{what}: {number:,}", fix)
        elif sample.name == "latencytrace_service_posts_refused_total" and number:
            code = sample.labels.get("code", "")
            what, fix = REFUSALS.get(code, ("posts refused", "see the service's log"))
            yield _wrong(f"{what}, {code}: {number:,}", fix)


def _receiver(agent: AgentSettings, services: str | None) -> Finding:
    """Send an empty post, which stores nothing, to where spans would go.

    Args:
        agent: Where they would go.
        services: Where the service that answers takes them; None: unknown.
    """
    if agent.grpc:
        return _grpc_receiver(agent)
    headers = {"content-type": "application/x-protobuf", **agent.headers}
    try:
        answer = ask("POST", agent.traces_url, TIMEOUT_S, content=b"", headers=headers)
    except OSError as error:
        what = f"nobody takes spans at {agent.traces_url}: {error}"
    else:
        if answer.is_success and services is not None and not _same(services, agent.traces_url):
            return _note(
                f"spans go to {agent.traces_url}; the service takes them at {services}",
                f"export OTEL_EXPORTER_OTLP_ENDPOINT={services}, unless they are passed on to it",
            )
        if answer.is_success:
            return _fine(f"spans are taken at {agent.traces_url}")
        if answer.status_code == HTTPStatus.UNAUTHORIZED:
            return _wrong(f"{agent.traces_url} asks for a token: spans are refused", SEND_TOKEN)
        status = f"{answer.status_code} {answer.reason_phrase}"
        what = f"{agent.traces_url} answers {status}: spans are refused"
    where = services or "… as the service has it (port 4318)"
    return _wrong(what, f"export OTEL_EXPORTER_OTLP_ENDPOINT={where}")


def _grpc_receiver(agent: AgentSettings) -> Finding:
    from latencytrace.agent.export.grpc import GrpcSender  # noqa: PLC0415 - other commands do without the agent

    try:
        sender = GrpcSender(agent.traces_url, agent.headers, TIMEOUT_S)
        answer = sender.send(b"")
        sender.close()
    except (OSError, SettingsError) as error:
        what = f"nobody takes spans over gRPC at {agent.traces_url}: {error}"
        return _wrong(what, "export OTEL_EXPORTER_OTLP_ENDPOINT=… as the service has it (4317)")
    if answer.status == HTTPStatus.OK:
        return _fine(f"spans are taken at {agent.traces_url}, over gRPC")
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return _wrong(f"{agent.traces_url} asks for a token: spans are refused", SEND_TOKEN)
    return _wrong(f"{agent.traces_url} answers {answer.reason}: spans are refused", None)


def _get(url: str, token: str | None) -> tuple[int, str]:
    """The status and body of an answer; status 0 where there is none."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        answer = ask("GET", url, TIMEOUT_S, headers=headers)
    except OSError as error:
        return 0, str(error)
    return answer.status_code, answer.content.decode("utf-8", "replace")


def _same(one: str, other: str) -> bool:
    """Compare two addresses: one port of one machine, loopback by whatever name."""
    (one_host, one_port), (other_host, other_port) = host_and_port(one), host_and_port(other)
    both_here = is_loopback(one) and is_loopback(other)
    return one_port == other_port and (both_here or one_host == other_host)


def _takes_at(url: str, token: str | None) -> str | None:
    """The address at which a service says that it takes spans."""
    status, body = _get(f"{url}/api/v1/receivers", token)
    try:
        return str(json.loads(body)["otlp_http"]) if status == HTTPStatus.OK else None
    except (ValueError, LookupError, TypeError):
        return None


def _version(body: str) -> str | None:
    """The version that a service's OpenAPI document names; None: it is no service of ours."""
    try:
        described = json.loads(body)["info"]
        return str(described["version"]) if described["title"] == "latencytrace" else None
    except (ValueError, LookupError, TypeError):
        return None


def _fine(what: str) -> Finding:
    return Finding(about=ABOUT, verdict=Verdict.FINE, what=what)


def _note(what: str, fix: str | None = None) -> Finding:
    return Finding(about=ABOUT, verdict=Verdict.NOTE, what=what, fix=fix)


def _wrong(what: str, fix: str | None) -> Finding:
    return Finding(about=ABOUT, verdict=Verdict.WRONG, what=what, fix=fix)
