"""Errors as RFC 9457 problem documents."""

from http import HTTPStatus

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from latencytrace.errors import LatencytraceError, NotFoundError, QuestionError, StoreError

MEDIA_TYPE = "application/problem+json"
_STATUSES: tuple[tuple[type[LatencytraceError], HTTPStatus], ...] = (
    (QuestionError, HTTPStatus.BAD_REQUEST),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (LatencytraceError, HTTPStatus.INTERNAL_SERVER_ERROR),
)


def problem_body(status: int, title: str, detail: str) -> bytes:
    """The bytes of a problem document."""
    problem = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return orjson.dumps(problem)


def _problem(status: int, detail: str) -> Response:
    title = HTTPStatus(status).phrase
    return Response(problem_body(status, title, detail), status, media_type=MEDIA_TYPE)


def answer_with_problems(app: FastAPI) -> None:
    """Turn every error of an application into a problem document."""

    async def ours(_: Request, error: Exception) -> Response:
        status = next(status for kind, status in _STATUSES if isinstance(error, kind))
        return _problem(status, str(error))

    async def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for it alone
        detail = error.detail
        if error.status_code == HTTPStatus.NOT_FOUND and detail == "Not Found":
            detail = "there is no such address; the API is described at /openapi.json"
        return _problem(error.status_code, detail)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it alone
        found = [f"{fault['loc'][-1]}: {fault['msg']}" for fault in error.errors()]
        return _problem(HTTPStatus.BAD_REQUEST, "; ".join(found))

    app.add_exception_handler(LatencytraceError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
