"""Schemas of answers, made when the description of the API is first asked for.

FastAPI would make them at each start, a tenth of it, and nothing else needs them: every view
writes its answer itself.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from typing_extensions import is_typeddict

_ANSWER: Final = "x-answer"  # in a description that is being made: the name of a document's class
_JSON: Final = "application/json"


class _Route(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        document = given.get("response_model")
        # Older FastAPIs give an included route what its view returns, too.
        if isinstance(document, type) and is_typeddict(document):
            given |= {"response_model": None, "openapi_extra": {_ANSWER: _noted(document)}}
        super().__init__(path, endpoint, **given)


class ViewRouter(APIRouter):
    """Views; the `response_model` of each describes its answer."""

    def __init__(self, **given: Any) -> None:
        super().__init__(route_class=_Route, **given)


class Api(FastAPI):
    """The application of `ViewRouter`s."""

    def openapi(self) -> dict[str, Any]:
        """Return the description of the API."""
        if self.openapi_schema is None:
            described = super().openapi()
            schemas = _with_answers(list(_operations(described)))
            described.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        return super().openapi()


_DOCUMENTS: Final[dict[str, type]] = {}  # by the name in a description


def _noted(document: type) -> str:
    name = f"{document.__module__}.{document.__qualname__}"
    _DOCUMENTS[name] = document
    return name


def _operations(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in described["paths"].values():
        yield from (one for one in path.values() if _ANSWER in one)


def _with_answers(operations: list[dict[str, Any]]) -> dict[str, Any]:
    """Write into operations what they answer; return the schemas that these refer to."""
    names = dict.fromkeys(one[_ANSWER] for one in operations)
    found, definitions = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(_DOCUMENTS[name])) for name in names],
        ref_template="#/components/schemas/{model}",
    )
    for one in operations:
        schema = found[one.pop(_ANSWER), "serialization"]
        for status, response in one["responses"].items():
            if status.startswith("2"):
                response["content"][_JSON]["schema"] = schema
    schemas: dict[str, Any] = definitions.get("$defs", {})
    return schemas
