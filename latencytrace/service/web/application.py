"""The application of the JSON API, as far as a store answers it: in a service, or without one."""

from collections.abc import Callable
from importlib.metadata import version

from fastapi import FastAPI

from latencytrace.service.answers.gpu_documents import GpusDocument
from latencytrace.service.net.problems import answer_with_problems
from latencytrace.service.store import Store
from latencytrace.service.web.views.breakdown import breakdown_router
from latencytrace.service.web.views.gpu import gpu_router
from latencytrace.service.web.views.ledgers import ledgers_router
from latencytrace.service.web.views.requests import requests_router
from latencytrace.service.web.views.services import services_router
from latencytrace.service.web.views.steps import steps_router
from latencytrace.service.web.views.tail import tail_router

API = "/api/v1"


def application(
    store: Store,
    now_ns: Callable[[], int],
    *,
    is_open: Callable[[str], bool] = lambda _: False,
    profiles_of: Callable[[str], list[str]] = lambda _: [],
    gpus: Callable[[], GpusDocument] = lambda: GpusDocument(gpus=[], stages=[]),
) -> FastAPI:
    """The views of a store; the defaults are those of a store without a service around it."""
    app = FastAPI(
        title="latencytrace",
        version=version("latencytrace"),
        description="Where did the milliseconds go? Durations are integer nanoseconds.",
        docs_url=None,  # its page would fetch its parts from elsewhere
        redoc_url=None,
    )
    answer_with_problems(app)
    for router in (
        services_router(store),
        breakdown_router(store, now_ns),
        tail_router(store, now_ns),
        requests_router(store, now_ns, is_open, profiles_of),
        ledgers_router(store, now_ns),
        steps_router(store),
        gpu_router(gpus),
    ):
        app.include_router(router, prefix=API)
    return app
