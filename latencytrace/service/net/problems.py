"""Errors as RFC 9457 problem documents."""

from collections.abc import Mapping
from http import HTTPStatus

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from latencytrace.errors import (
    LatencytraceError,
    MediaTypeError,
    NotFoundError,
    OverloadedError,
    ProfileError,
    QuestionError,
    StoreError,
)

MEDIA_TYPE = "application/problem+json"

_STATUSES: tuple[tuple[type[LatencytraceError], HTTPStatus], ...] = (
    (MediaTypeError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (QuestionError, HTTPStatus.BAD_REQUEST),
    (ProfileError, HTTPStatus.CONFLICT),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (OverloadedError, HTTPStatus.TOO_MANY_REQUESTS),
)


def problem_body(status: int, detail: str) -> bytes:
    """The bytes of a problem document."""
    title = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": int(status), "detail": detail}
    return orjson.dumps(problem)


def answer_with_problems(app: FastAPI) -> None:
    """Turn every error of an application into a problem document."""
    for kind in (LatencytraceError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    """The one place where errors become answers."""
    headers: Mapping[str, str] | None = None
    status: int
    match error:
        case LatencytraceError():
            status, detail = problem_status(error), str(error)
        case HTTPException():
            status, detail = error.status_code, _detail(request, error)
            headers = error.headers
        case RequestValidationError():
            status = HTTPStatus.BAD_REQUEST
            detail = "; ".join(f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors())
        case _:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            detail = "a fault of latencytrace's own, see the service's log: please report it"
    return Response(problem_body(status, detail), status, headers, MEDIA_TYPE)


def problem_status(error: Exception) -> HTTPStatus:
    """HTTP's status for one of our errors."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR


def _detail(request: Request, error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return f"there is nothing at {request.url.path}; /openapi.json lists what there is"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return (
            f"{request.url.path} does not know {request.method}; /openapi.json says what it does"
        )
    return error.detail
