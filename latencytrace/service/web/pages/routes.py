"""All pages put into an application, with what they show."""

from collections.abc import Callable

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from latencytrace.service.web.pages.analyses.capacity import capacity_pages
from latencytrace.service.web.pages.analyses.compare import compare_pages
from latencytrace.service.web.pages.analyses.tail import tail_pages
from latencytrace.service.web.pages.analyses.whatif import whatif_pages
from latencytrace.service.web.pages.api_docs import api_pages
from latencytrace.service.web.pages.assets import Assets
from latencytrace.service.web.pages.breakdown import breakdown_pages
from latencytrace.service.web.pages.errors import answer_with_pages
from latencytrace.service.web.pages.gpu import gpu_pages
from latencytrace.service.web.pages.health import health_pages
from latencytrace.service.web.pages.objectives import objectives_pages
from latencytrace.service.web.pages.overview import overview_pages
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.requests import requests_pages
from latencytrace.service.web.pages.trace import trace_pages


def add_pages(
    app: FastAPI,
    parts: Parts,
    assets: Assets,
    metrics: CollectorRegistry,
    unready: Callable[[], str | None],
) -> None:
    """Have an application show pages.

    Args:
        app: It answers the JSON API already.
        parts: Where pages get what they show.
        assets: The files that they ask for.
        unready: The reason why it is not ready; None: it is.
    """
    for router in (
        overview_pages(parts, metrics),
        breakdown_pages(parts),
        tail_pages(parts),
        requests_pages(parts),
        trace_pages(parts),
        compare_pages(parts),
        whatif_pages(parts),
        capacity_pages(parts),
        objectives_pages(parts),
        gpu_pages(parts),
        health_pages(parts, metrics, unready),
        api_pages(app, parts.renderer),
        assets.router(),
    ):
        app.include_router(router)
    answer_with_pages(app, parts.renderer)
