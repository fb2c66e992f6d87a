"""OTLP over HTTP: `POST /v1/traces`, answered once what was sent is safe."""

import asyncio
from typing import Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from latencytrace.errors import OtlpError, OverloadedError, StoreError
from latencytrace.service import otlp
from latencytrace.service.committer import Committer
from latencytrace.service.telemetry import Telemetry

MAX_BODY_BYTES: Final = 64 * 1024 * 1024  # on the wire
RETRY_AFTER_S: Final = 1


def receiver(committer: Committer, telemetry: Telemetry) -> Starlette:
    """The application that takes spans.

    Answers 200 once they are kept, 400 to what is not OTLP, 413 to what is too large, 429
    with `Retry-After` while too much waits, 503 while the store fails.
    """

    async def traces(request: Request) -> Response:
        content_type = request.headers.get("content-type")

        def refused(status: int, code: int, message: str) -> Response:
            telemetry.posts_refused.labels(str(status)).inc()
            answer = otlp.refusal(message, code, content_type)
            retry = {"retry-after": str(RETRY_AFTER_S)} if status in {429, 503} else None
            return Response(answer.body, status, retry, answer.content_type)

        try:
            body = await _body(request)
        except ClientDisconnect:
            return refused(400, otlp.INVALID_ARGUMENT, "the sender left before the body ended")
        if body is None:
            message = f"the body has more than {MAX_BODY_BYTES} bytes: send smaller batches"
            return refused(413, otlp.INVALID_ARGUMENT, message)
        try:
            checked = otlp.check(body, content_type, request.headers.get("content-encoding"))
            telemetry.spans_rejected.inc(checked.rejected_spans)
            await asyncio.wrap_future(committer.submit(checked))
        except OtlpError as error:
            return refused(400, otlp.INVALID_ARGUMENT, str(error))
        except OverloadedError as error:
            return refused(429, otlp.RESOURCE_EXHAUSTED, str(error))
        except StoreError as error:
            return refused(503, otlp.UNAVAILABLE, str(error))
        answer = otlp.acceptance(checked, content_type)
        return Response(answer.body, media_type=answer.content_type)

    return Starlette(routes=[Route("/v1/traces", traces, methods=["POST"])])


async def _body(request: Request) -> bytes | None:
    """The whole body; None: it is too large, and not read to its end."""
    parts = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            return None
        parts.append(part)
    return b"".join(parts)
