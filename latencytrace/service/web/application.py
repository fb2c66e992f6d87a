"""The application of the JSON API, as far as a store answers it: in a service, or without one."""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI

from latencytrace.model import Objective
from latencytrace.model.cohorts.request_columns import Beside, as_they_are
from latencytrace.service.answers.gpu_documents import GpusDocument, GpuTimelinesDocument
from latencytrace.service.net.problems import DESCRIBED, answer_with_problems
from latencytrace.service.storage.baselines import NAME as BASELINES
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store
from latencytrace.service.web.queries import refuse_twice
from latencytrace.service.web.views.backup import backup_router
from latencytrace.service.web.views.breakdown import breakdown_router
from latencytrace.service.web.views.capacity import capacity_router
from latencytrace.service.web.views.compare import compare_router
from latencytrace.service.web.views.gpu import gpu_router
from latencytrace.service.web.views.ledgers import ledgers_router
from latencytrace.service.web.views.overhead import overhead_router
from latencytrace.service.web.views.overview import overview_router
from latencytrace.service.web.views.requests import requests_router
from latencytrace.service.web.views.services import services_router
from latencytrace.service.web.views.steps import steps_router
from latencytrace.service.web.views.tail import tail_router
from latencytrace.service.web.views.whatif import whatif_router

API = "/api/v1"


def application(  # noqa: PLR0913 - what it shows
    store: Store,
    now_ns: Callable[[], int],
    folder: Path,
    *,
    is_open: Callable[[str], bool] = lambda _: False,
    profiles_of: Callable[[str], list[str]] = lambda _: [],
    objectives: Callable[[], Sequence[Objective]] = lambda: (),
    gpus: Callable[[], GpusDocument] = lambda: GpusDocument(gpus=[], stages=[]),
    gpu_timelines: Callable[[], GpuTimelinesDocument] = lambda: GpuTimelinesDocument(gpus=[]),
    beside: Beside = as_they_are,
) -> FastAPI:
    """The views of a store; the defaults are those of a store without a service around it.

    Args:
        store: What answers.
        now_ns: The time of day.
        folder: The data folder, which holds the baselines.
        is_open: Whether spans of a trace have arrived that are not attributed yet.
        profiles_of: The ids of the profiles that saw a trace.
        objectives: Watched objectives.
        gpus: The GPUs that are read.
        gpu_timelines: Samples of the GPUs over time.
        beside: Adds to requests what engines reported when they began.
    """
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
        requests_router(store, now_ns, is_open, profiles_of),
        ledgers_router(store, now_ns),
        steps_router(store),
        compare_router(store, now_ns, Baselines(folder / BASELINES), beside),
        whatif_router(store, now_ns),
        capacity_router(store, now_ns, objectives),
        gpu_router(gpus, gpu_timelines),
        backup_router(store),
    ):
        app.include_router(router, prefix=API, dependencies=[Depends(refuse_twice)])
    return app
