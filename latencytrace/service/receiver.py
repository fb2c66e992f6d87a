"""OTLP over HTTP: `POST /v1/traces`, answered once what was sent is safe."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from latencytrace.errors import OtlpError, OverloadedError, StoreError
from latencytrace.service import otlp
from latencytrace.service.otlp import CheckedRequest, OtlpAnswer
from latencytrace.service.telemetry import Telemetry

MAX_BODY_BYTES: Final = otlp.MAX_BYTES  # on the wire
MAX_BYTES_READ: Final = 4 * MAX_BODY_BYTES  # of all bodies that are being read and checked
LONG_BODY_BYTES: Final = 256 * 1024  # checked beside the event loop, which it would hold up
RETRY_AFTER: Final = "1"  # seconds

Submit = Callable[[CheckedRequest], Future[None]]

_TOO_LARGE = f"the body has more than {MAX_BODY_BYTES} bytes: send smaller batches"
_CODES = {  # of google.rpc.Status
    HTTPStatus.TOO_MANY_REQUESTS: otlp.RESOURCE_EXHAUSTED,
    HTTPStatus.SERVICE_UNAVAILABLE: otlp.UNAVAILABLE,
}


def receiver(submit: Submit, telemetry: Telemetry) -> Starlette:
    """The application that takes spans.

    Answers 200 once they are kept, 400 to what is not OTLP, 413 to what is too large, 429
    with `Retry-After` while too much waits, 503 likewise while the store fails.

    Args:
        submit: Keeps the spans of a checked request.
        telemetry: Counts what is not kept.
    """
    budget = _Budget(MAX_BYTES_READ)

    async def traces(request: Request) -> Response:
        content_type = request.headers.get("content-type")
        try:
            answer = await _kept(request, budget, submit, telemetry)
        except (OtlpError, ClientDisconnect) as error:
            return refused(HTTPStatus.BAD_REQUEST, str(error), content_type)
        except OverloadedError as error:
            return refused(HTTPStatus.TOO_MANY_REQUESTS, str(error), content_type)
        except StoreError as error:
            return refused(HTTPStatus.SERVICE_UNAVAILABLE, str(error), content_type)
        return Response(answer.body, media_type=answer.content_type)

    async def elsewhere(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
        content_type = request.headers.get("content-type")
        return refused(error.status_code, _advice(request, error), content_type)

    def refused(status: int, message: str, content_type: str | None) -> Response:
        telemetry.posts_refused.labels(str(int(status))).inc()
        code = _CODES.get(HTTPStatus(status), otlp.INVALID_ARGUMENT)
        answer = otlp.refusal(message, code, content_type)
        retry = {"retry-after": RETRY_AFTER} if status in _CODES else None
        return Response(answer.body, status, retry, answer.content_type)

    return Starlette(
        routes=[Route("/v1/traces", traces, methods=["POST"])],
        exception_handlers={HTTPException: elsewhere},
    )


async def _kept(
    request: Request, budget: "_Budget", submit: Submit, telemetry: Telemetry
) -> OtlpAnswer:
    """Read a request, check it, and wait until its spans are kept."""
    headers = request.headers
    content_type = headers.get("content-type")
    with budget.share() as share:
        body = await _body(request, share)
        arguments = (body, content_type, headers.get("content-encoding"))
        if len(body) > LONG_BODY_BYTES:
            checked = await asyncio.to_thread(otlp.check, *arguments)
        else:
            checked = otlp.check(*arguments)
    telemetry.spans_rejected.inc(checked.rejected_spans)
    await asyncio.wrap_future(submit(checked))
    return otlp.acceptance(checked, content_type)


async def _body(request: Request, share: "_Share") -> bytes:
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


def _advice(request: Request, error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return f"{request.url.path} is not taken here: POST traces to /v1/traces"
    return error.detail


class _Budget:
    """Bytes that all bodies being read may have together."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0

    @contextmanager
    def share(self) -> "Iterator[_Share]":
        """One body's share, given back at the end."""
        share = _Share(self)
        try:
            yield share
        finally:
            self.bytes -= share.bytes


class _Share:
    """What one body has taken of a budget."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self.bytes = 0

    def take(self, size: int) -> None:
        """Note that this much more was read.

        Raises:
            OverloadedError: The budget is spent.
        """
        self._budget.bytes += size
        self.bytes += size
        if self._budget.bytes > self._budget.max_bytes:
            raise OverloadedError("too many bodies are being read: send again in a second")
