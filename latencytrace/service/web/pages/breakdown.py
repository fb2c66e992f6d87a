"""Where the time of a cohort went: stages by mean and quantile, and durations over time."""

from collections.abc import Mapping
from functools import cache, partial

from fastapi import APIRouter, Request
from fastapi.responses import Response

from latencytrace.service.answers import requests as answers
from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.answers.overview_documents import HeatMapDocument, heat_map
from latencytrace.service.web.drawing.heat_map import heat_map as drawn_heat_map
from latencytrace.service.web.pages.cohort_bar import Asked, nearest, rfc3339
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address

MOST_COLUMNS = 20  # of the table behind the heat map, the slowest first
UNNAMED = ("unattributed", "other")
MOSTLY = 0.5


def breakdown_pages(parts: Parts) -> APIRouter:
    """Answer at `/breakdown`."""
    router = APIRouter(include_in_schema=False)

    def context(question: Asked) -> Mapping[str, object]:
        @cache
        def breakdown() -> BreakdownDocument:
            return answers.breakdown(parts.store, question.cohort)

        return {
            "breakdown": breakdown,
            "heat_map": partial(heat_map, parts.store, question.cohort, question.now_ns),
            "drawn": drawn_heat_map,
            "cells": partial(slowest_cells, question),
            "requests": question.link("/requests"),
            "tail": question.link("/tail"),
            "mostly_unnamed": mostly_unnamed,
            "nearest": lambda: list(nearest(parts.store, question)),
        }

    @router.get("/breakdown")
    def breakdown_page(request: Request) -> Response:
        return parts.cohort_page(request, "breakdown.html", "Breakdown", context)

    return router


def mostly_unnamed(document: BreakdownDocument) -> bool:
    """Tell whether no span explains most of the time."""
    return (
        sum(row["share_ratio"] for row in document["stages"] if row["stage"] in UNNAMED) > MOSTLY
    )


def slowest_cells(
    question: Asked, document: HeatMapDocument
) -> list[tuple[str, int, int, int, Address]]:
    """The cells of the slowest requests: since, durations, how many, and where they are listed."""
    ranked = sorted(document["cells"], key=lambda cell: (-cell["row"], -cell["column"]))
    return [
        (
            cell["since"],
            cell["at_least_ns"],
            cell["at_most_ns"],
            cell["requests"],
            question.link(
                "/requests",
                since=rfc3339(int(cell["since"])),
                until=rfc3339(int(cell["until"])),
                duration=f"{cell['at_least_ns']}ns..{cell['at_most_ns']}ns",
            ),
        )
        for cell in ranked[:MOST_COLUMNS]
    ]
