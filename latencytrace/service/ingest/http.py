"""OTLP over HTTP: `POST /v1/traces`, answered once what was sent is safe; `/v1/metrics`."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from latencytrace.errors import (
    LatencytraceError,
    MediaTypeError,
    OtlpError,
    OverloadedError,
    StoreError,
)
from latencytrace.model.profile import AGENT_HEADER, ORDER_HEADER, UPLOAD_PATH
from latencytrace.service.ingest.intake import RETRY_AFTER_S, Intake, Share
from latencytrace.service.net.problems import MEDIA_TYPE, problem_body, problem_status
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.metrics import metrics_answer, metrics_request
from latencytrace.service.otlp.traces import OtlpAnswer
from latencytrace.service.profiles.orders import Profiles
from latencytrace.service.reports.gpu_samplers import MetricReports

MAX_BODY_BYTES: Final = otlp.MAX_BYTES  # on the wire

Take = Callable[[Request], Awaitable[OtlpAnswer]]

_TOO_LARGE = f"the body has more than {MAX_BODY_BYTES} bytes: send smaller batches"
_CODES = {  # of google.rpc.Status
    HTTPStatus.TOO_MANY_REQUESTS: otlp.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: otlp.UNAVAILABLE,
}


def receiver(intake: Intake, reports: MetricReports, profiles: Profiles) -> Starlette:
    """The application that takes spans, and what agents report on themselves.

    Answers 200 once they are kept, 400 to what is not OTLP, 408 to what comes too slowly or not
    to its end, 413 to what is too large, 415 to what is not said to be OTLP, 429 with
    `Retry-After` while too much waits, 503 with `Retry-After` while the store fails.
    """

    async def traces(request: Request) -> OtlpAnswer:
        return await _kept(request, intake)

    async def metrics(request: Request) -> OtlpAnswer:
        return await _noted(request, intake, reports)

    def endpoint(take: Take) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            content_type = request.headers.get("content-type")
            try:
                answer = await take(request)
            except (OtlpError, ClientDisconnect, OverloadedError, StoreError) as error:
                return refused(_status(error), str(error), content_type)
            headers = _order(request, profiles)
            return Response(answer.body, headers=headers, media_type=answer.content_type)

        return answered

    async def elsewhere(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
        content_type = request.headers.get("content-type")
        advice, headers = _advice(request, error), error.headers
        return refused(error.status_code, advice, content_type, headers)

    def refused(
        status: int,
        message: str,
        content_type: str | None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        intake.refused(HTTPStatus(status))
        code = _CODES.get(HTTPStatus(status), otlp.INVALID_ARGUMENT)
        answer = otlp.refusal(message, code, content_type)
        retry = {"retry-after": str(RETRY_AFTER_S)} if status in _CODES else {}
        return Response(answer.body, status, {**(headers or {}), **retry}, answer.content_type)

    profile = partial(_profile_kept, intake=intake, profiles=profiles)
    return Starlette(
        routes=[
            Route("/v1/traces", endpoint(traces), methods=["POST"]),
            Route("/v1/metrics", endpoint(metrics), methods=["POST"]),
            Route(f"{UPLOAD_PATH}/{{profile_id}}", profile, methods=["POST"]),
        ],
        exception_handlers={HTTPException: elsewhere},
    )


async def _kept(request: Request, intake: Intake) -> OtlpAnswer:
    """Read a request, check it, and wait until its spans are kept."""
    headers = request.headers
    content_type = headers.get("content-type", "")
    otlp.media_type(content_type)
    with intake.share() as share:
        body = await _body(request, share)
        checked = await intake.check(body, content_type, headers.get("content-encoding"))
    await intake.keep(checked)
    return otlp.acceptance(checked, content_type)


async def _noted(request: Request, intake: Intake, reports: MetricReports) -> OtlpAnswer:
    """Read a request of metrics, and note what agents report."""
    content_type = request.headers.get("content-type", "")
    otlp.media_type(content_type)
    with intake.share() as share:
        body = await _body(request, share)
        encoding = request.headers.get("content-encoding")
        message = await intake.beside(metrics_request, body, content_type, encoding)
    return metrics_answer(reports.take(message), content_type)


async def _profile_kept(request: Request, intake: Intake, profiles: Profiles) -> Response:
    """Keep a profile that was asked for."""
    try:
        otlp.media_type(request.headers.get("content-type", ""))
        with intake.share() as share:
            body = await _body(request, share)
            await intake.beside(profiles.take, request.path_params["profile_id"], body)
    except (LatencytraceError, ClientDisconnect) as error:
        status = problem_status(error)
        return Response(problem_body(status, str(error)), status, media_type=MEDIA_TYPE)
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _order(request: Request, profiles: Profiles) -> Mapping[str, str] | None:
    """Return the headers of the answer to an agent's post."""
    agent = request.headers.get(AGENT_HEADER)
    order = profiles.received(agent) if agent is not None else None
    return {ORDER_HEADER: order} if order is not None else None


async def _body(request: Request, share: Share) -> bytes:
    """The whole body.

    Raises:
        HTTPException: It is too large, and was not read to its end.
        OverloadedError: Too many bodies are being read.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
    parts = []
    async for part in request.stream():
        share.take(len(part))
        if share.bytes > MAX_BODY_BYTES:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
        parts.append(part)
    return b"".join(parts)


def _status(error: Exception) -> HTTPStatus:
    """Return the status of a fault, and whether sending again can help."""
    if isinstance(error, MediaTypeError):
        return HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    if isinstance(error, OverloadedError):
        return HTTPStatus.TOO_MANY_REQUESTS
    if isinstance(error, StoreError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, ClientDisconnect):  # it gets no answer; it is counted
        return HTTPStatus.REQUEST_TIMEOUT
    return HTTPStatus.BAD_REQUEST


def _advice(request: Request, error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        path = request.url.path
        return f"{path} is not taken here: POST traces to /v1/traces, metrics to /v1/metrics"
    return error.detail
