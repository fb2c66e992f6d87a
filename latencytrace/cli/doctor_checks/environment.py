"""Variables that tracing reads: whether they make sense together."""

import importlib.util
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from latencytrace.agent.gpu.reader import GpuReader, installed_gpu_readers
from latencytrace.agent.guard import FaultCounter
from latencytrace.cli.doctor_checks.other_tracers import other_tracer
from latencytrace.errors import GpuUnavailableError, SettingsError
from latencytrace.model.gpu import GpuDevice
from latencytrace.model.texts.units import count
from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.settings import GRPC, AgentSettings, off_switches

ABOUT = "environment"
GRPC_PORT = 4317
HTTP_PORT = 4318
NOBODY = "OTEL_TRACES_EXPORTER"  # which "none" makes a switch

_wrong = partial(Finding.wrong, ABOUT)


def environment_findings(
    environ: Mapping[str, str], settings: Callable[[], AgentSettings]
) -> Iterator[Finding]:
    """Judge the environment.

    Args:
        settings: Reads the agent's settings out of it.
    """
    try:
        agent = settings()
    except SettingsError as error:
        yield _wrong(f"the agent stays off: {error}", "correct the variable that is named")
        return
    if agent.disabled:
        switches = off_switches(environ)
        if environ.get(NOBODY, "").strip().lower() == "none":
            switches.append(NOBODY)
        yield _wrong(
            f"tracing is switched off: {', '.join(f'{n}={environ[n]}' for n in switches)}",
            f"unset {' '.join(switches)}",
        )
    yield from _sampler(agent)
    yield from _endpoint(environ, agent)
    yield from _protocol(environ, agent)
    yield from _other_providers(environ)


def _sampler(agent: AgentSettings) -> Iterator[Finding]:
    """Judge whether the sampler records anything of the requests that begin here."""
    ratio = agent.sampler.endswith(("ratio", "probability"))
    try:
        is_none = agent.sampler.endswith("always_off") or (
            ratio and bool(agent.sampler_argument) and float(agent.sampler_argument) == 0
        )
    except ValueError:  # it is refused when the agent starts
        return
    if is_none:
        argument = f" and OTEL_TRACES_SAMPLER_ARG={agent.sampler_argument}" if ratio else ""
        of = "of traces that begin here " if agent.sampler.startswith("parentbased") else ""
        yield _wrong(
            f"nothing {of}is recorded: OTEL_TRACES_SAMPLER={agent.sampler}{argument}",
            "unset OTEL_TRACES_SAMPLER, or export OTEL_TRACES_SAMPLER=parentbased_always_on",
        )


def _endpoint(environ: Mapping[str, str], agent: AgentSettings) -> Iterator[Finding]:
    """Judge whether the addresses are meant as OpenTelemetry means them."""
    named = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/")
    own = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    if named.endswith("/v1/traces") and not agent.grpc:
        yield _wrong(
            f"OTEL_EXPORTER_OTLP_ENDPOINT={named} is a base address: spans go to "
            f"{agent.traces_url}",
            f"export OTEL_EXPORTER_OTLP_ENDPOINT={named.removesuffix('/v1/traces')}",
        )
    if own and not agent.grpc and urlsplit(own).path in {"", "/"}:
        yield _wrong(
            f"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={own} is used as it is, without /v1/traces",
            f"export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={own.rstrip('/')}/v1/traces",
        )
    if own and named:
        yield Finding.note(ABOUT, f"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT wins: spans go to {own}")


def _protocol(environ: Mapping[str, str], agent: AgentSettings) -> Iterator[Finding]:
    """Judge whether the agent speaks what the variables ask for, at a port usual for it."""
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environ.get(name, "").strip().lower()
        if protocol not in {"", "http/protobuf", GRPC}:
            yield _wrong(
                f"{name}={protocol}, but the agent sends http/protobuf or grpc",
                f"export {name}=http/protobuf, and name an address that takes it (port 4318)",
            )
    if agent.grpc and importlib.util.find_spec("h2") is None:
        yield _wrong(
            "the agent stays off: spans shall go over gRPC, for which a package is missing",
            "pip install 'latencytrace[grpc]'",
        )
    usual, other = (GRPC_PORT, HTTP_PORT) if agent.grpc else (HTTP_PORT, GRPC_PORT)
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        if _port(environ.get(name, "")) == other:
            said, spoken = ("HTTP", "gRPC") if agent.grpc else ("gRPC", "HTTP")
            yield _wrong(
                f"{name}={environ[name]} is the usual port of OTLP over {said}; the agent "
                f"speaks {spoken}",
                f"export {name}={environ[name].replace(f':{other}', f':{usual}')}",
            )


def _other_providers(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Judge whether the environment starts another instrumentation."""
    other = other_tracer((), environ.get("PYTHONPATH", ""))
    if other is not None:
        yield _wrong(*other)
    provider = environ.get("OTEL_PYTHON_TRACER_PROVIDER")
    if provider:
        yield Finding.note(
            ABOUT,
            f"OTEL_PYTHON_TRACER_PROVIDER={provider}: where the program loads it, it "
            "makes the spans, ours included, at its own price",
        )


def _port(address: str) -> int | None:
    try:
        return urlsplit(address).port
    except ValueError:
        return None


GPUS = "GPUs"
PATIENCE_S: Final = 10.0  # a driver of a failing GPU may not answer for a minute


def gpu_findings(*, wanted: bool | None) -> Iterator[Finding]:
    """Judge the GPUs that are installed.

    Args:
        wanted: What the settings say of reading them; None: where there are any.
    """
    if wanted is False:
        yield Finding.note(GPUS, "left out by LATENCYTRACE_GPU")
        return
    for reader in installed_gpu_readers(FaultCounter()):
        yield judged(reader, wanted=wanted is True)


def judged(reader: GpuReader, *, wanted: bool, patience_s: float = PATIENCE_S) -> Finding:
    """Open a vendor's GPUs once, on a thread that is left behind if that hangs."""
    found: list[Sequence[GpuDevice] | GpuUnavailableError] = []

    def look() -> None:
        try:
            found.append(reader.open())
        except GpuUnavailableError as error:
            found.append(error)
        reader.close()

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(patience_s)
    if not found:
        return Finding.wrong(
            GPUS,
            f"the driver has not answered for {patience_s:g} s",
            "see the kernel's log, and LATENCYTRACE_GPU=0 until it does",
        )
    (answer,) = found
    if isinstance(answer, GpuUnavailableError):
        is_fine = answer.is_absent and not wanted
        verdict = Verdict.NOTE if is_fine else Verdict.WRONG
        return Finding(about=GPUS, verdict=verdict, what=f"none is read: {answer}")
    if not answer:
        verdict = Verdict.WRONG if wanted else Verdict.NOTE
        return Finding(about=GPUS, verdict=verdict, what="the driver shows none to this user")
    whole = [gpu for gpu in answer if gpu.parent_uuid is None]
    names = ", ".join(sorted({gpu.name for gpu in whole}))
    driver = f", driver {whole[0].driver}" if whole and whole[0].driver else ""
    what = f"{count(len(whole), 'GPU')} can be read: {names}{driver}"
    return Finding.fine(GPUS, what)
