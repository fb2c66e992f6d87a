"""Errors as RFC 9457 problem documents."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

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
DESCRIBED: Final[dict[int | str, dict[str, Any]]] = {  # as responses of OpenAPI
    "default": {
        "description": "An error, and what to do (RFC 9457).",
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "type": {"type": "string"},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string"},
                    },
                    "required": ["type", "title", "status", "detail"],
                }
            }
        },
    }
}

_STATUSES: tuple[tuple[type[LatencytraceError], HTTPStatus], ...] = (
    (MediaTypeError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (QuestionError, HTTPStatus.BAD_REQUEST),
    (ProfileError, HTTPStatus.CONFLICT),
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (OverloadedError, HTTPStatus.TOO_MANY_REQUESTS),
)


class Problem(NamedTuple):
    """An error as an answer says it."""

    status: int
    detail: str
    headers: Mapping[str, str] | None = None


def problem_body(status: int, detail: str) -> bytes:
    title = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": int(status), "detail": detail}
    return orjson.dumps(problem)


def answer_with_problems(app: FastAPI) -> None:
    """Turn every error of an application into a problem document."""
    for kind in (LatencytraceError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    return problem_answer(problem_of(request, error))


def problem_answer(problem: Problem) -> Response:
    """Return the problem document of an error."""
    body = problem_body(problem.status, problem.detail)
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


def problem_of(request: Request, error: Exception) -> Problem:
    """Say of an error what an answer says: the one place where errors become answers."""
    match error:
        case LatencytraceError():
            return Problem(problem_status(error), str(error))
        case HTTPException():
            return Problem(error.status_code, _detail(request, error), error.headers)
        case RequestValidationError():
            return Problem(HTTPStatus.BAD_REQUEST, "; ".join(map(_fault, error.errors())))
        case _:
            return Problem(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "a fault of latencytrace's own, see the service's log: please report it",
            )


def problem_status(error: Exception) -> HTTPStatus:
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR


def _fault(fault: Mapping[str, Any]) -> str:
    place = fault["loc"][-1]
    if fault["type"] == "json_invalid":
        return f"the body is not JSON, at character {place}: {fault['ctx']['error']}"
    return f"{place}: {fault['msg']}"


def _detail(request: Request, error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return f"there is nothing at {request.url.path}; /openapi.json lists what there is"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return (
            f"{request.url.path} does not know {request.method}; /openapi.json says what it does"
        )
    return error.detail


class JsonAnswer(Response):
    """A document as JSON.

    FastAPI takes it as it is. Checking a document against its description again would
    take longer than making it; tests hold the two together. Its keys are plain texts:
    to allow others makes lists of requests cost over half as much again.
    """

    media_type = "application/json"

    def __init__(self, document: object, status: int = 200) -> None:
        super().__init__(orjson.dumps(document), status)
