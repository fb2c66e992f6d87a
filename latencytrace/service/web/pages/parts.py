"""What all pages are given."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import Response

from latencytrace.service.answers.documents import (
    AlertsDocument,
    ObjectivesDocument,
)
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store
from latencytrace.service.web.pages.cohort_bar import MOST_NAMES, Asked, asked
from latencytrace.service.web.pages.rendering import Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Where pages get what they show, and what draws them."""

    store: Store
    baselines: Baselines
    now_ns: Callable[[], int]
    renderer: Renderer
    is_open: Callable[[str], bool]  # a trace, whose spans are not attributed yet
    profiles_of: Callable[[str], list[str]]  # those that saw a trace
    objectives: Callable[[], ObjectivesDocument]
    alerts: Callable[[], AlertsDocument]

    def cohort_page(
        self,
        request: Request,
        template: str,
        title: str,
        context: Callable[[Asked], Mapping[str, object]],
        own: Collection[str] = (),
    ) -> Response:
        """Answer with a page about a cohort: its frame first, then its panels.

        Its `own` parameters are none of the cohort's.
        """
        question = asked(request, self.now_ns(), own)
        services = self.store.services()
        frame = {
            "title": title,
            "path": request.url.path,
            "asked": question,
            "services": services[:MOST_NAMES],
        }
        return self.renderer.streamed(template, {**frame, **context(question)})
