"""The requests of a cohort: a list, and when they were and how long they took."""

from collections.abc import Mapping, Sequence
from functools import cache, partial

from fastapi import APIRouter
from markupsafe import Markup

from latencytrace.analysis.weighted import quantiles
from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import RequestsDocument
from latencytrace.service.cohort import Cohort
from latencytrace.service.store import Order, Questions
from latencytrace.service.web.drawing.scatter import scatter
from latencytrace.service.web.pages.cohort_bar import Asked
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.grouping import BY, group_files, grouping
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.releases import releases
from latencytrace.service.web.pages.trace import trace_address

MOST_LISTED = 200
LISTED = 50
P99 = 0.99


def requests_pages(parts: Parts) -> APIRouter:
    """Answer at `/requests`."""

    def context(question: Asked) -> Mapping[str, object]:
        given = "limit" in question.query.model_fields_set
        limit = min(question.query.limit, MOST_LISTED) if given else LISTED
        kept = str(limit) if given else None
        order = question.query.order
        took = question.values["duration"] or None
        address = partial(trace_address, question)
        store = parts.service.store

        @cache
        def left_out() -> Sequence[str]:
            found = question.cohort
            asked_for = found.route is not None or found.duration is not None
            return (
                [] if asked_for or order is not Order.SLOWEST else store.long_lived_routes(found)
            )

        @cache
        def found() -> RequestsDocument:
            return answers.requests(store, lacking(question.cohort, left_out()), order, limit)

        p99_ns = cache(lambda: p99_of(store, lacking(question.cohort, left_out())))

        began = cache(partial(releases, store, question))

        def points() -> Markup:
            return scatter(found()["requests"], p99_ns(), address, began())

        return {
            "files": [Export("requests.svg", points), *group_files(store, question)],
            **grouping(store, question, "/requests"),
            "found": found,
            "p99_ns": p99_ns,
            "order": order,
            "orders": [
                (str(one), question.link("/requests", order=str(one), limit=kept)) for one in Order
            ],
            "limit": limit,
            "more": question.link("/requests", order=str(order), limit=str(MOST_LISTED)),
            "tail": question.link("/tail", duration=None, selected=took),
            "points": points,
            "left_out": lambda: [
                (one, question.link("/requests", route=one)) for one in left_out()
            ],
            "releases": began,
            "trace_address": address,
        }

    return parts.cohort_pages("/requests", "requests.html", "Requests", context, (BY,))


def lacking(cohort: Cohort, routes: Sequence[str]) -> Cohort:
    """The requests of a cohort but those of some routes."""
    without = (*cohort.without, *(("route", one) for one in routes))
    return cohort.model_copy(update={"without": without})


def p99_of(store: Questions, cohort: Cohort) -> float | None:
    """The exact p99 of the durations of a cohort, in ns; None: it has no request with stages."""
    durations = store.durations(cohort)
    return float(quantiles(durations.ns, P99, durations.weight)) if len(durations) else None
