"""The application of the JSON API, as far as a store answers it: in a service, or without one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from fastapi import Depends, FastAPI

from latencytrace.model import Objective
from latencytrace.model.cohorts.request_columns import Beside, as_they_are
from latencytrace.service.answers.gpu_documents import GpusDocument, GpuTimelinesDocument
from latencytrace.service.net.problems import DESCRIBED, answer_with_problems
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store
from latencytrace.service.web.queries import refuse_twice
from latencytrace.service.web.views.backup import backup_router
from latencytrace.service.web.views.breakdown import (
    breakdown_router,
    overhead_router,
    overview_router,
    services_router,
)
from latencytrace.service.web.views.compare import (
    capacity_router,
    compare_router,
    tail_router,
    whatif_router,
)
from latencytrace.service.web.views.profiles import gpu_router
from latencytrace.service.web.views.requests import ledgers_router, requests_router, steps_router


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """A store and what knows more; the defaults are those of a store without a service."""

    store: Store
    baselines: Baselines
    now_ns: Callable[[], int]  # the time of day
    is_open: Callable[[str], bool] = lambda _: False  # a trace, whose spans have no ledger yet
    profiles_of: Callable[[str], list[str]] = lambda _: []  # ids of those that saw a trace
    objectives: Callable[[], Sequence[Objective]] = lambda: ()  # that are watched
    gpus: Callable[[], GpusDocument] = lambda: GpusDocument(gpus=[], stages=[])
    gpu_timelines: Callable[[], GpuTimelinesDocument] = lambda: GpuTimelinesDocument(gpus=[])
    beside: Beside = as_they_are  # adds to requests what engines reported when they began


API = "/api/v1"


def application(context: ServiceContext) -> FastAPI:
    """The views of a store."""
    store, now_ns, beside = context.store, context.now_ns, context.beside
    app = FastAPI(
        title="latencytrace",
        version=version("latencytrace"),
        description="Where did the milliseconds go? Durations are integer nanoseconds.",
        docs_url=None,  # its page would fetch its parts from elsewhere
        redoc_url=None,
        responses=DESCRIBED,
    )
    answer_with_problems(app)
    for router in (
        services_router(store),
        overview_router(store, now_ns),
        overhead_router(store, now_ns),
        breakdown_router(store, now_ns),
        tail_router(store, now_ns, beside),
        requests_router(store, now_ns, context.is_open, context.profiles_of),
        ledgers_router(store, now_ns),
        steps_router(store),
        compare_router(store, now_ns, context.baselines, beside),
        whatif_router(store, now_ns),
        capacity_router(store, now_ns, context.objectives),
        gpu_router(context.gpus, context.gpu_timelines),
        backup_router(store),
    ):
        app.include_router(router, prefix=API, dependencies=[Depends(refuse_twice)])
    return app
