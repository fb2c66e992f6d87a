"""`GET /api/v1/compare`, and the baselines to compare with."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from latencytrace.analysis.compare.verdict import AT_LEAST
from latencytrace.model.cohorts.request_columns import Beside
from latencytrace.service.answers import compare as answers
from latencytrace.service.answers.compare_documents import (
    BaselineDocument,
    BaselinesDocument,
    CompareDocument,
)
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store
from latencytrace.service.web.queries import NO_PARAMETERS, KnownQuery

_Side = Annotated[
    str, Field(description="version=1.2&since=1h, or baseline:NAME", max_length=10_000)
]


class CompareQuery(KnownQuery):
    """Two cohorts, each a query of its own."""

    a: _Side
    b: _Side
    at_least: Annotated[float, Field(ge=0, le=10)] = AT_LEAST


class Saved(BaseModel):
    """The cohort that a baseline shall hold."""

    model_config = ConfigDict(extra="forbid")

    cohort: Annotated[str, Field(max_length=10_000)] = ""


def compare_router(
    store: Store, now_ns: Callable[[], int], baselines: Baselines, beside: Beside
) -> APIRouter:
    """Two cohorts side by side, and cohorts that are kept for it."""
    router = APIRouter(tags=["compare"])

    @router.get("/compare", response_model=CompareDocument)
    def compare(asked: Annotated[CompareQuery, Query()]) -> Response:
        """What shifted from A to B, at equal work and load, and whether it may be chance."""
        sides = asked.a, asked.b
        found = answers.comparison(store, baselines, sides, asked.at_least, now_ns(), beside)
        return JsonAnswer(found)

    @router.get("/baselines", response_model=BaselinesDocument, dependencies=NO_PARAMETERS)
    def listed() -> Response:
        """The baselines that are kept."""
        return JsonAnswer(answers.saved_baselines(baselines))

    @router.get("/baselines/{name}", response_class=Response, dependencies=NO_PARAMETERS)
    def table(name: str) -> Response:
        """The ledgers of one, as Parquet."""
        return Response(baselines.table(name), 200, None, "application/vnd.apache.parquet")

    @router.put("/baselines/{name}", response_model=BaselineDocument, dependencies=NO_PARAMETERS)
    def save(name: str, wanted: Saved) -> Response:
        """Keep the requests of a cohort under a name, in the place of what had it."""
        kept = answers.save_baseline(store, baselines, name, wanted.cohort, now_ns())
        return JsonAnswer(kept)

    @router.delete(
        "/baselines/{name}", response_model=BaselineDocument, dependencies=NO_PARAMETERS
    )
    def delete(name: str) -> Response:
        """Forget one."""
        return JsonAnswer(answers.baseline_document(baselines.delete(name)))

    return router
