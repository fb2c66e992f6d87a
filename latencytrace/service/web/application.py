"""The application of the JSON API, as far as a store answers it: in a service, or without one."""

from fastapi import Depends

from latencytrace.plugins import installed_version
from latencytrace.service.net.problems import DESCRIBED, answer_with_problems
from latencytrace.service.web.context import ServiceContext
from latencytrace.service.web.described import Api
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

API = "/api/v1"


def application(context: ServiceContext) -> Api:
    """The views of a store."""
    store, now_ns, beside = context.store, context.now_ns, context.beside
    app = Api(
        title="latencytrace",
        version=installed_version("latencytrace"),
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
        requests_router(store, now_ns, context.open_because, context.profiles_of),
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
