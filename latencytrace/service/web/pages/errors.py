"""Errors as pages for people, as problem documents for programs."""

from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from latencytrace.errors import LatencytraceError
from latencytrace.service.net.problems import Problem, problem_answer, problem_of
from latencytrace.service.web.pages.cohort_bar import written
from latencytrace.service.web.pages.rendering import Renderer

_TITLES = {404: "Not found", 400: "This address cannot be read", 503: "The store does not answer"}


def answer_with_pages(app: FastAPI, renderer: Renderer) -> None:
    """Have every error of an application shown as a page where HTML is asked for."""

    async def answer(request: Request, error: Exception) -> Response:
        problem = problem_of(request, error)
        if not wants_page(request):
            return problem_answer(problem)
        return error_page(renderer, request, problem)

    for kind in (LatencytraceError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, answer)


def wants_page(request: Request) -> bool:
    """Tell whether a browser shows the answer, and no client of the API reads it."""
    accepted = request.headers.get("accept", "")
    return "text/html" in accepted and not request.url.path.startswith("/api/")


def error_page(
    renderer: Renderer, request: Request, problem: Problem, services: Sequence[str] | None = None
) -> Response:
    """The page of an error: what happened, and what to do.

    Args:
        request: For the page that was not found, or could not be.
        services: Services that the form of that page proposes; None: it has none.
    """
    title = _TITLES.get(problem.status, "Something went wrong")
    context = {
        "title": title,
        "path": request.url.path,
        "asked": written(request),
        "detail": problem.detail,
        **({} if services is None else {"services": services}),
    }
    return renderer.page("error.html", context, problem.status, problem.headers)
