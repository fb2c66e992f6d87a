"""`GET /api/v1/breakdown`, and its parts around quantiles and over time."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.service.answers import breakdown_parts
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.breakdown_parts import AroundsDocument, StagesOverTimeDocument
from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.answers.groups import (
    AttributeKeysDocument,
    GroupsDocument,
    attribute_keys,
)
from latencytrace.service.answers.groups import groups as groups_of
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.store import Store
from latencytrace.service.web.queries import BreakdownQuery, GroupsQuery


def breakdown_router(store: Store, now_ns: Callable[[], int]) -> APIRouter:
    """Time per stage of a cohort."""
    router = APIRouter(tags=["breakdown"])

    @router.get("/breakdown", response_model=BreakdownDocument)
    def breakdown(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """Time per stage of a cohort, as means, shares and quantiles."""
        return JsonAnswer(answers.breakdown(store, asked.cohort(now_ns())))

    @router.get("/breakdown/quantiles", response_model=AroundsDocument)
    def quantiles(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """The mean requests around p50, p90 and p99 of the duration, stage by stage."""
        return JsonAnswer(breakdown_parts.arounds(store, asked.cohort(now_ns())))

    @router.get("/breakdown/timeline", response_model=StagesOverTimeDocument)
    def timeline(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """Mean time per stage over time."""
        at_ns = now_ns()
        return JsonAnswer(breakdown_parts.stages_over_time(store, asked.cohort(at_ns), at_ns))

    @router.get("/breakdown/groups", response_model=GroupsDocument)
    def groups(asked: Annotated[GroupsQuery, Query()]) -> Response:
        """A cohort by a label or an attribute: each value with its requests."""
        at_ns = now_ns()
        cohort = asked.cohort(at_ns)
        return JsonAnswer(groups_of(store, cohort, asked.by, at_ns, asked.limit))

    @router.get("/attributes", response_model=AttributeKeysDocument)
    def attributes(asked: Annotated[BreakdownQuery, Query()]) -> Response:
        """The attributes of a cohort's requests, and how many requests have each."""
        return JsonAnswer(attribute_keys(store, asked.cohort(now_ns())))

    return router
