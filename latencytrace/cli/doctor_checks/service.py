"""The service that runs: whether it answers and takes spans, and what it dropped or refused."""

import json
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus

from latencytrace.cli.doctor_checks.disk import disk_findings
from latencytrace.cli.processes.local_service import (
    free_port,
    host_and_port,
    is_loopback,
    listens,
    service_is_installed,
)
from latencytrace.cli.source.reading import service_at
from latencytrace.errors import SettingsError
from latencytrace.service.answers.findings.agents import agent_findings, sender_findings
from latencytrace.service.answers.findings.counted import (
    ABOUT,
    counted_findings,
    custody_findings,
    held_findings,
)
from latencytrace.service.answers.findings.finding import Finding, samples
from latencytrace.service.answers.findings.overhead_documents import overhead_findings
from latencytrace.service.net.http_client import ask
from latencytrace.settings import DEFAULT_OTLP_ENDPOINT, AgentSettings

TIMEOUT_S = 5.0
BUSY_S = 30.0  # of a service that is there, and may be busy
SEND_TOKEN = 'export OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20TOKEN"'  # noqa: S105 - none
SHOW_TOKEN = "export LATENCYTRACE_TOKEN=… as the service has it"  # noqa: S105 - no token

_fine = partial(Finding.fine, ABOUT)
_note = partial(Finding.note, ABOUT)
_wrong = partial(Finding.wrong, ABOUT)


def service_findings(
    url: str, token: str | None, agent: AgentSettings | None, *, named: bool = False
) -> Iterator[Finding]:
    """Judge the service, and the receiver that the agent would send to.

    Args:
        agent: Where spans would go; None: its settings cannot be used.
        named: The user named this address, so a service must answer there.
    """
    there = service_at(url) is not None
    if not there:
        yield _absent(url, agent, named=named)
    else:
        yield from _service(url, token)
    if agent is not None and not agent.disabled and (there or listens(agent.traces_url)):
        yield _receiver(agent, _takes_at(url, token) if there else None)


def _absent(url: str, agent: AgentSettings | None, *, named: bool) -> Finding:
    if not named and agent is not None and listens(agent.traces_url):
        return _note(
            f"none answers at {url}, though something listens at {agent.traces_url}",
            "export LATENCYTRACE_URL=… if the service answers elsewhere",
        )
    if listens(url):
        return _wrong(
            f"something that is no latencytrace service has taken {url}",
            f"export LATENCYTRACE_URL=http://127.0.0.1:{free_port()}, where `run` starts one then",
        )
    startable = not named and service_is_installed() and is_loopback(url)
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
    if not status:
        yield _wrong(f"the service at {url} does not answer: {body}", "see its log")
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
        yield from counted_findings(metrics)
        yield from custody_findings(metrics)
        yield from disk_findings(metrics)
        yield from sender_findings(metrics)
        yield from agent_findings(metrics)
    yield from _overhead(url, token)
    status, body = _get(f"{url}/api/v1/breakdown", token)
    if status == HTTPStatus.OK:
        yield from held_findings(json.loads(body))


def _overhead(url: str, token: str | None) -> Iterator[Finding]:
    """Judge what tracing costs requests; an older service has no answer."""
    status, body = _get(f"{url}/api/v1/overhead", token)
    if status == HTTPStatus.OK:
        yield from overhead_findings(json.loads(body))


def _receiver(agent: AgentSettings, services: str | None) -> Finding:
    """Send an empty post, which stores nothing, to where spans would go.

    Args:
        services: Where the service that answers takes them; None: unknown.
    """
    if agent.grpc:
        return _grpc_receiver(agent)
    headers = {"content-type": "application/x-protobuf", **agent.headers}
    try:
        answer = ask("POST", agent.traces_url, TIMEOUT_S, content=b"", headers=headers)
    except OSError as error:
        what = f"nothing takes spans at {agent.traces_url}: {error}"
        if services is not None and agent.endpoint == DEFAULT_OTLP_ENDPOINT:
            return _note(
                f"{what}; the service takes them at {services}",
                f"export OTEL_EXPORTER_OTLP_ENDPOINT={services} for programs started here",
            )
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
    from latencytrace.agent.export.grpc import GrpcSender

    try:
        sender = GrpcSender(agent.traces_url, agent.headers, TIMEOUT_S)
        answer = sender.send(b"")
        sender.close()
    except (OSError, SettingsError) as error:
        what = f"nothing takes spans over gRPC at {agent.traces_url}: {error}"
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
        answer = ask("GET", url, BUSY_S, headers=headers)
    except OSError as error:
        return 0, str(error)
    return answer.status_code, answer.content.decode("utf-8", "replace")


def _same(one: str, other: str) -> bool:
    """Compare two addresses: one port of one machine, loopback by whatever name."""
    (one_host, one_port), (other_host, other_port) = host_and_port(one), host_and_port(other)
    both_here = is_loopback(one) and is_loopback(other)
    return one_port == other_port and (both_here or one_host == other_host)


def _takes_at(url: str, token: str | None) -> str | None:
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
