"""The page of the JSON API, made of its own description: every address with its parameters."""

from collections.abc import Iterator
from typing import NamedTuple, cast

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from latencytrace.service.web.pages.cohort_bar import written
from latencytrace.service.web.pages.rendering import Renderer


class Parameter(NamedTuple):
    """A parameter of an operation."""

    name: str
    where: str  # query or path
    required: bool
    text: str


class Operation(NamedTuple):
    """A method of an address."""

    method: str
    path: str
    tag: str
    text: str
    parameters: tuple[Parameter, ...]


def api_pages(app: FastAPI, renderer: Renderer) -> APIRouter:
    """Answer at `/docs`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    def docs_page(request: Request) -> Response:
        context = {
            "title": "JSON API",
            "path": request.url.path,
            "asked": written(request),
            "operations": list(operations(app.openapi())),
            "address": str(request.base_url).rstrip("/"),
        }
        return renderer.page("docs.html", context)

    return router


def operations(described: dict[str, object]) -> Iterator[Operation]:
    """Read the operations off an OpenAPI document."""
    paths = cast("dict[str, dict[str, dict[str, object]]]", described["paths"])
    for path, methods in paths.items():
        for method, operation in methods.items():
            given = cast("list[dict[str, object]]", operation.get("parameters", []))
            yield Operation(
                method=method.upper(),
                path=path,
                tag=cast("list[str]", operation.get("tags", ["other"]))[0],
                text=str(operation.get("description", "")),
                parameters=tuple(
                    Parameter(
                        name=str(one["name"]),
                        where=str(one["in"]),
                        required=bool(one.get("required")),
                        text=str(one.get("description", "")),
                    )
                    for one in given
                ),
            )
