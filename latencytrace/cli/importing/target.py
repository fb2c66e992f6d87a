"""Targets of an import: a service that runs, or the data folder itself."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, cast

import httpx
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.cli.processes.local_service import is_loopback
from latencytrace.cli.source.folder import FolderSource
from latencytrace.cli.source.reading import ServiceSource, Source, nobody_at, service_at
from latencytrace.cli.source.service_address import checked, service_address
from latencytrace.errors import (
    LatencytraceError,
    OtlpError,
    OverloadedError,
    ServiceUnreachableError,
)
from latencytrace.service.app import taking_in
from latencytrace.service.ledgers.pipeline import Pipeline
from latencytrace.service.net.http_client import ask
from latencytrace.service.otlp.traces import PROTOBUF, CheckedRequest
from latencytrace.settings import agent_settings, data_folder, service_settings

POST_TIMEOUT_S: Final = 60.0
PATIENCE_S: Final = 120.0  # with a service that says it is too busy
ATTRIBUTED_WITHIN_S: Final = 30.0
_BUSY = frozenset({429, 503})


class Target(Protocol):
    """Takes checked spans, and answers questions about them at the end."""

    title: str  # a folder or an address
    takes_content: bool  # prompts, texts and the like; a service takes them out itself

    def keep(
        self, requests: Sequence[CheckedRequest], messages: Sequence[ExportTraceServiceRequest]
    ) -> None:
        """Keep spans; they are safe when this returns.

        Args:
            requests: Decoded spans.
            messages: The same, decoded, without their content.

        Raises:
            OtlpError: The store cannot read them.
            LatencytraceError: The target accepts no more spans.
        """
        ...

    def finish(self) -> Source:
        """Wait until everything is attributed; return what answers from now on."""
        ...


@contextmanager
def target(url: str | None, endpoint: str | None, data: Path | None) -> Iterator[Target]:
    """Find where to import into: the folder named, else the service, else the usual folder.

    Raises:
        ServiceUnreachableError: The service named does not answer.
        StoreInUseError: Another process owns the folder.
    """
    address = service_address(url)
    running = service_at(address) if data is None else None
    if running is not None:
        yield _service_target(running, endpoint)
        return
    if data is None and (url is not None or not is_loopback(address)):
        raise ServiceUnreachableError(
            f"{nobody_at(address)}: start one with `latencytrace serve`, "
            "or import into a folder with --data"
        )
    folder = data or data_folder()
    settings = service_settings(folder=folder)
    with taking_in(settings) as (store, pipeline):
        source = FolderSource(store, folder)
        yield FolderTarget(str(folder), pipeline, source, takes_content=settings.capture_content)


@dataclass(slots=True)
class FolderTarget:
    """A data folder, locked meanwhile."""

    title: str
    pipeline: Pipeline
    source: Source
    takes_content: bool = False

    def keep(
        self, requests: Sequence[CheckedRequest], messages: Sequence[ExportTraceServiceRequest]
    ) -> None:
        del messages
        for submitted in [self._submitted(request) for request in requests]:
            submitted.result()

    def _submitted(self, request: CheckedRequest) -> Future[None]:
        while True:
            try:
                return self.pipeline.submit(request)
            except OverloadedError:
                time.sleep(0.1)

    def finish(self) -> Source:
        self.pipeline.close()
        if self.pipeline.left_fault is not None:
            raise self.pipeline.left_fault
        return self.source


@dataclass(slots=True)
class ServiceTarget:
    """A service that runs."""

    title: str
    traces_url: str
    headers: Mapping[str, str]
    source: ServiceSource
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    takes_content: bool = True
    _last: str | None = field(default=None)  # the trace that is attributed last

    def keep(
        self, requests: Sequence[CheckedRequest], messages: Sequence[ExportTraceServiceRequest]
    ) -> None:
        deadline_s = self.now_s() + PATIENCE_S
        block = b"".join(message.SerializeToString() for message in messages)
        while (wait_s := self._post(block, deadline_s)) is not None:
            self.sleep(wait_s)
        # Traces are attributed in the order in which they fell quiet, then of their ids.
        rooted = frozenset().union(*(request.rooted for request in requests))
        self._last = max(rooted, default=self._last)

    def finish(self) -> Source:
        deadline_s = self.now_s() + ATTRIBUTED_WITHIN_S
        while self._last is not None and not self._is_attributed(self._last):
            if self.now_s() > deadline_s:
                raise LatencytraceError(
                    f"what was sent to {self.traces_url} did not become requests of the service "
                    f"at {self.source.url} within {ATTRIBUTED_WITHIN_S:g} s: is that its receiver?"
                )
            self.sleep(0.1)
        return self.source

    def _post(self, block: bytes, deadline_s: float) -> float | None:
        """Send once; return after how many seconds to send again, None: it is kept."""
        try:
            answer = ask(
                "POST", self.traces_url, POST_TIMEOUT_S, content=block, headers=self.headers
            )
        except OSError as error:
            raise ServiceUnreachableError(f"{self.traces_url} fell silent: {error}") from None
        if answer.is_success:
            return None
        if answer.status_code in _BUSY and self.now_s() < deadline_s:
            after = answer.headers.get("retry-after", "")
            return float(after) if after.isdecimal() else 1.0
        kind = OtlpError if answer.status_code == httpx.codes.BAD_REQUEST else LatencytraceError
        raise kind(f"{self.traces_url} answered {answer.status_code}: {_said(answer)}")

    def _is_attributed(self, trace_id: str) -> bool:
        try:
            self.source.document(f"/requests/{trace_id}", {})
        except ServiceUnreachableError:
            raise
        except LatencytraceError:  # not yet
            return False
        return True


def _service_target(source: ServiceSource, endpoint: str | None) -> ServiceTarget:
    receivers = cast(Mapping[str, str], source.document("/receivers", {}))
    settings = agent_settings(endpoint=endpoint or receivers["otlp_http"], over_http=True)
    checked("endpoint", settings.endpoint)
    headers = {"content-type": PROTOBUF, **settings.headers}
    if source.token is not None:
        headers.setdefault("authorization", f"Bearer {source.token}")
    return ServiceTarget(
        title=source.url, traces_url=settings.traces_url, headers=headers, source=source
    )


def _said(answer: httpx.Response) -> str:
    """Read what a receiver says is wrong."""
    body = answer.content
    try:
        return Status.FromString(body).message or answer.reason_phrase
    except DecodeError:
        return body.decode("utf-8", "replace") or answer.reason_phrase
