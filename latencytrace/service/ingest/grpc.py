"""OTLP over gRPC: `TraceService/Export`, answered once what was sent is safe; metrics too."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from socket import socket
from typing import Any, Final

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from latencytrace.errors import OtlpError, OverloadedError, SettingsError, StoreError
from latencytrace.service.ingest.intake import RETRY_AFTER_S, Intake
from latencytrace.service.net.edge import SHOW_TOKEN, is_loopback, shows_token
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.metrics import metrics_answer, metrics_request
from latencytrace.service.reports.gpu_samplers import MetricReports

_TRACES = trace_service_pb2.DESCRIPTOR.services_by_name["TraceService"]
_METRICS = metrics_service_pb2.DESCRIPTOR.services_by_name["MetricsService"]
EXPORT: Final = f"/{_TRACES.full_name}/Export"
EXPORT_METRICS: Final = f"/{_METRICS.full_name}/Export"
MAX_CALLS: Final = 4096  # at once; the engine's own answer to more has no time to retry at
HANDSHAKE_MS: Final = 10_000  # in which a connection must begin to speak gRPC

Take = Callable[[bytes], Awaitable[bytes]]
Answering = Callable[[bytes, Any], Awaitable[bytes]]

_CODES: Final = {
    HTTPStatus.BAD_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    HTTPStatus.UNAUTHORIZED: grpc.StatusCode.UNAUTHENTICATED,
    HTTPStatus.NOT_FOUND: grpc.StatusCode.UNIMPLEMENTED,
    HTTPStatus.TOO_MANY_REQUESTS: grpc.StatusCode.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
}
_RETRIED: Final = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}


class GrpcReceiver:
    """A gRPC server that takes spans, and what agents report on themselves.

    Bytes are handed over as they came: nothing is parsed but in `otlp.check`. Browsers
    cannot speak gRPC, so that no page can reach it under a name of its own.

    Args:
        reserved: A socket that listens at the address to use; closed as soon as the
            server, which makes its sockets itself, can take its place.
        token: What to ask for off loopback; None: nothing.
    """

    def __init__(
        self, intake: Intake, reports: MetricReports, reserved: socket, token: str | None
    ) -> None:
        self._intake = intake
        self._reports = reports
        self._reserved = reserved
        host, port = reserved.getsockname()[:2]
        self._address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._token = None if is_loopback(host) else token
        self._server: Any = None
        self.is_started = False

    async def start(self) -> None:
        """Begin to listen.

        Raises:
            SettingsError: Another program took the address in the meantime.
        """
        self._server = server = grpc.aio.server(
            options=(
                ("grpc.so_reuseport", 0),  # two services at one port would share the spans
                ("grpc.max_receive_message_length", otlp.MAX_BYTES),
                ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
            ),
            maximum_concurrent_rpcs=MAX_CALLS,
        )
        methods = {
            EXPORT: self._answering(self._kept),
            EXPORT_METRICS: self._answering(self._noted),
        }
        server.add_generic_rpc_handlers((_Methods(methods, self._elsewhere),))
        self._reserved.close()
        try:
            server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise SettingsError(f"cannot listen on {self._address}: {error}") from None
        await server.start()
        self.is_started = True

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those under way this time to be answered."""
        self.is_started = False
        await self._server.stop(grace_s)

    async def stopped(self) -> None:
        await self._server.wait_for_termination()

    def _answering(self, take: Take) -> Answering:
        async def answered(body: bytes, context: Any) -> bytes:
            status, why = HTTPStatus.UNAUTHORIZED, SHOW_TOKEN
            try:
                if shows_token(_headers(context), self._token):
                    return await take(body)
            except OtlpError as error:
                status, why = HTTPStatus.BAD_REQUEST, str(error)
            except OverloadedError as error:
                status, why = HTTPStatus.TOO_MANY_REQUESTS, str(error)
            except StoreError as error:
                status, why = HTTPStatus.SERVICE_UNAVAILABLE, str(error)
            return await self._refuse(context, status, why)

        return answered

    async def _kept(self, body: bytes) -> bytes:
        with self._intake.share() as share:
            share.take(len(body))
            checked = await self._intake.check(body, otlp.PROTOBUF, None)
        await self._intake.keep(checked)
        return otlp.acceptance(checked, otlp.PROTOBUF).body

    async def _noted(self, body: bytes) -> bytes:
        with self._intake.share() as share:
            share.take(len(body))
            message = await self._intake.beside(metrics_request, body, otlp.PROTOBUF, None)
        return metrics_answer(self._reports.take(message), otlp.PROTOBUF).body

    async def _elsewhere(self, _body: bytes, context: Any) -> bytes:
        why = f"this is not taken here: traces are, by {EXPORT}, and metrics"
        return await self._refuse(context, HTTPStatus.NOT_FOUND, why)

    async def _refuse(self, context: Any, status: HTTPStatus, why: str) -> bytes:
        """End a call with the reason, and when to try again."""
        self._intake.refused(status)
        code = _CODES[status]
        trailers: tuple[tuple[str, bytes], ...] = ()
        if status in _RETRIED:
            details = Status(code=code.value[0], message=why)
            retry = RetryInfo()
            retry.retry_delay.seconds = RETRY_AFTER_S
            details.details.add().Pack(retry)
            trailers = (("grpc-status-details-bin", details.SerializeToString()),)
        await context.abort(code, why, trailers)
        raise AssertionError  # `abort` has raised


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    """Every method that can be asked for."""

    def __init__(self, methods: Mapping[str, Answering], elsewhere: Answering) -> None:
        self._handlers = {
            name: grpc.unary_unary_rpc_method_handler(answering)
            for name, answering in methods.items()
        }
        self._elsewhere = grpc.unary_unary_rpc_method_handler(elsewhere)

    def service(self, handler_call_details: Any) -> object:
        """The one asked for, else one that says what is taken."""
        return self._handlers.get(handler_call_details.method, self._elsewhere)


def _headers(context: Any) -> dict[bytes, bytes]:
    return {
        key.encode(): value if isinstance(value, bytes) else value.encode()
        for key, value in context.invocation_metadata() or ()
    }
