"""The service as its views and pages see it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from latencytrace.model import Objective
from latencytrace.model.cohorts.request_columns import Beside, as_they_are
from latencytrace.service.answers.gpu_documents import GpusDocument, GpuTimelinesDocument
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceContext:
    """A store and what knows more; the defaults are those of a store without a service."""

    store: Store
    baselines: Baselines
    now_ns: Callable[[], int]  # the time of day
    open_because: Callable[[str], str | None] = lambda _: None  # what an open trace waits for
    profiles_of: Callable[[str], list[str]] = lambda _: []  # ids of the profiles that saw a trace
    objectives: Callable[[], Sequence[Objective]] = lambda: ()  # that are watched
    gpus: Callable[[], GpusDocument] = lambda: GpusDocument(gpus=[], stages=[])
    gpu_timelines: Callable[[], GpuTimelinesDocument] = lambda: GpuTimelinesDocument(gpus=[])
    logs_url: str | None = None  # of the logs of a request, with placeholders
    beside: Beside = as_they_are  # adds to requests what engines reported when they began
