"""Answers are described once the description is asked for, as FastAPI would."""

from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import PlainTextResponse, Response
from typing_extensions import TypedDict

from latencytrace.service.web.described import Api, ViewRouter


class Part(TypedDict):
    name: str


class Document(TypedDict):
    """What is answered."""

    parts: list[Part]


def views(router: APIRouter) -> APIRouter:
    @router.get("/document", response_model=Document)
    def document() -> Response:
        return Response()

    @router.post("/document", response_model=Document, status_code=202)
    def accepted() -> Response:
        return Response()

    @router.get("/text", response_model=str, response_class=PlainTextResponse)  # noqa: FAST001 - as older FastAPIs give it
    def text() -> str:
        return ""

    @router.get("/plain")
    def plain() -> dict[str, int]:
        return {}

    return router


def described(app: FastAPI, router: APIRouter) -> dict[str, Any]:
    app.include_router(views(router), prefix="/api")
    return app.openapi()


def test_the_description_is_the_one_that_fastapi_makes() -> None:
    ours = described(Api(title="views"), ViewRouter(tags=["views"]))

    assert ours == described(FastAPI(title="views"), APIRouter(tags=["views"]))
    assert ours["components"]["schemas"].keys() == {"Document", "Part"}


def test_no_schema_of_an_answer_is_made_before_it_is_asked_for() -> None:
    made = [route.response_model for route in views(ViewRouter()).routes]  # type: ignore[attr-defined] # all are APIRoute

    assert made == [None, None, str, dict[str, int]]


def test_a_description_is_made_once() -> None:
    app = Api(title="views")

    assert described(app, ViewRouter()) is app.openapi()
