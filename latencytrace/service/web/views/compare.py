"""`GET /api/v1/compare`, `/baselines`, `/tail`, `/whatif` and `/capacity`."""

from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from latencytrace.analysis.compare.verdict import AT_LEAST
from latencytrace.model import Objective
from latencytrace.model.cohorts.request_columns import Beside
from latencytrace.service.answers import compare as compare_answers
from latencytrace.service.answers import tail as tail_answers
from latencytrace.service.answers import whatif as whatif_answers
from latencytrace.service.answers.compare_documents import (
    BaselineDocument,
    BaselinesDocument,
    CompareDocument,
    WhatifDocument,
)
from latencytrace.service.answers.load import capacity as capacity_answers
from latencytrace.service.answers.load.capacity_documents import CapacityDocument
from latencytrace.service.answers.tail_documents import TailDocument
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import (
    NO_PARAMETERS,
    BreakdownQuery,
    CapacityQuery,
    KnownQuery,
    TailQuery,
)

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
) -> ViewRouter:
    """Two cohorts side by side, and cohorts that are kept for it."""
    router = ViewRouter(tags=["compare"])

    @router.get("/compare", response_model=CompareDocument)
    def compare(asked: Annotated[CompareQuery, Query()]) -> Response:
        """Shifts from A to B at equal work and load, proven or not, end to end and by stage."""
        sides = asked.a, asked.b
        found = compare_answers.comparison(
            store, baselines, sides, asked.at_least, now_ns(), beside
        )
        return JsonAnswer(found)

    @router.get("/baselines", response_model=BaselinesDocument, dependencies=NO_PARAMETERS)
    def listed() -> Response:
        """The baselines that are kept."""
        return JsonAnswer(compare_answers.saved_baselines(baselines))

    @router.get("/baselines/{name}", response_class=Response, dependencies=NO_PARAMETERS)
    def table(name: str) -> Response:
        """The ledgers of one, as Parquet."""
        return Response(baselines.table(name), 200, None, "application/vnd.apache.parquet")

    @router.put("/baselines/{name}", response_model=BaselineDocument, dependencies=NO_PARAMETERS)
    def save(name: str, wanted: Saved) -> Response:
        """Keep the requests of a cohort under a name, in the place of what had it."""
        kept = compare_answers.save_baseline(store, baselines, name, wanted.cohort, now_ns())
        return JsonAnswer(kept)

    @router.delete(
        "/baselines/{name}", response_model=BaselineDocument, dependencies=NO_PARAMETERS
    )
    def delete(name: str) -> Response:
        """Forget one."""
        return JsonAnswer(compare_answers.baseline_document(baselines.delete(name)))

    return router


def tail_router(store: Store, now_ns: Callable[[], int], beside: Beside) -> ViewRouter:
    """The slowest requests of a cohort against its usual ones."""
    router = ViewRouter(tags=["tail"])

    @router.get("/tail", response_model=TailDocument)
    def tail(asked: Annotated[TailQuery, Query()]) -> Response:
        """The stages and attributes of the slowest requests against those around the median."""
        at_ns = now_ns()
        cohort = asked.cohort(at_ns)
        selection = asked.selection(cohort, at_ns)
        if selection is None:
            return JsonAnswer(tail_answers.tail(store, cohort, asked.quantile, beside))
        return JsonAnswer(tail_answers.tail_of_selected(store, cohort, selection, beside))

    return router


class WhatifQuery(BreakdownQuery):
    """A cohort, and the stage of it that shall be faster."""

    stage: Annotated[str, Field(description="retrieve, decode and so on")]
    faster: Annotated[
        float | None, Field(ge=0, le=1, description="the share of its time that is gone")
    ] = None
    at_most_ms: Annotated[
        float | None, Field(ge=0, le=1e9, description="the longest that a call of it takes")
    ] = None


def whatif_router(store: Store, now_ns: Callable[[], int]) -> ViewRouter:
    """A cohort as if a stage were faster."""
    router = ViewRouter(tags=["whatif"])

    @router.get("/whatif", response_model=WhatifDocument)
    def whatif(asked: Annotated[WhatifQuery, Query()]) -> Response:
        """End-to-end quantiles if a stage took less time, by replaying requests."""
        change = whatif_answers.change_of(asked.stage, asked.faster, asked.at_most_ms)
        return JsonAnswer(whatif_answers.whatif(store, asked.cohort(now_ns()), change))

    return router


def capacity_router(
    store: Store, now_ns: Callable[[], int], objectives: Callable[[], Sequence[Objective]]
) -> ViewRouter:
    """Latency against load."""
    router = ViewRouter(tags=["capacity"])

    @router.get("/capacity", response_model=CapacityDocument)
    def capacity(asked: Annotated[CapacityQuery, Query()]) -> Response:
        """Rates and durations by how many requests are under way, the knee, and the goodput.

        Without a limit, requests shall meet the objectives that are watched.
        """
        limits = asked.limits(objectives())
        at_ns = now_ns()
        cohort = asked.cohort(at_ns)
        return JsonAnswer(capacity_answers.capacity_of(store, cohort, limits, at_ns, asked.rate))

    return router
