"""The values that every page gets."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.service.alerting.over_time import ObjectivesOverTimeDocument
from latencytrace.service.answers.documents import (
    AlertDocument,
    AlertsDocument,
    ObjectivesDocument,
)
from latencytrace.service.net.problems import problem_of
from latencytrace.service.web.context import ServiceContext
from latencytrace.service.web.pages.cohort_bar import (
    ADDED,
    MOST_NAMES,
    Asked,
    asked,
    nearest,
    written,
)
from latencytrace.service.web.pages.errors import error_page, wants_page
from latencytrace.service.web.pages.exports import PARAMETER, Export, answer
from latencytrace.service.web.pages.rendering import Address, Renderer


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Where pages get what they show, and what draws them."""

    service: ServiceContext
    renderer: Renderer
    objectives: Callable[[], ObjectivesDocument]
    objectives_over_time: Callable[[], ObjectivesOverTimeDocument]
    alerts: Callable[[], AlertsDocument]
    past_alerts: Callable[[], Sequence[AlertDocument]]

    def cohort_pages(
        self,
        path: str,
        template: str,
        title: str,
        context: Callable[[Asked], Mapping[str, Any]],
        own: Collection[str] = (),
    ) -> APIRouter:
        """Answer at an address with a page about a cohort.

        Args:
            context: What the page shows; its `files` can be saved, and its `check` raises
                where one of the page's own parameters is wrong.
            own: Parameters of the page that are no filters of a cohort.
        """
        router = APIRouter(include_in_schema=False)

        @router.get(path)
        def page(request: Request) -> Response:
            return self._cohort_page(request, template, title, context, own)

        return router

    def _cohort_page(
        self,
        request: Request,
        template: str,
        title: str,
        context: Callable[[Asked], Mapping[str, Any]],
        own: Collection[str],
    ) -> Response:
        """Send the frame first, then the panels; or one of the page's files."""
        try:
            more = request.query_params.get(ADDED, "").strip()
            if more:
                return RedirectResponse(written(request).adding(request.url.path, more), 303)
            question = asked(request, self.service.now_ns(), (*own, PARAMETER))
        except QuestionError as error:
            if not wants_page(request):
                raise
            return self._refused(request, error)
        about = dict(context(question))
        files = self.files(request, about.pop("files", ()))
        if isinstance(files, Response):
            return files
        frame = {
            "title": title,
            "path": request.url.path,
            "asked": question,
            "services": self._services(),
            "versions": self._versions(question),
            "absolute": question.lasting(request.url.path),
            "nearest": lambda: list(nearest(self.service.store, question)),
        }
        status = _status(about.pop("check", None))
        return self.renderer.streamed(template, {**frame, **files, **about}, status)

    def _services(self) -> Sequence[str]:
        return self.service.store.services()[:MOST_NAMES]

    def _versions(self, question: Asked) -> Sequence[str]:
        """The versions that a page can be asked for, the latest first."""
        every = self.service.store.versions(question.cohort.model_copy(update={"version": None}))
        latest = sorted(every, key=lambda one: -every[one])
        known = (version for _, version in latest[:MOST_NAMES])
        return list(dict.fromkeys([*known, *question.all("version")]))

    def _refused(self, request: Request, error: QuestionError) -> Response:
        """The form with what cannot be read, to be mended."""
        problem = problem_of(request, error)
        return error_page(self.renderer, request, problem, self._services())

    @staticmethod
    def files(request: Request, exports: Sequence[Export]) -> Response | Mapping[str, object]:
        """The file that an address asks for instead of the page; or what the page says of all."""
        given = request.query_params.multi_items()
        wanted = request.query_params.get(PARAMETER)
        if wanted:
            return answer(exports, wanted)
        kept = [(name, value) for name, value in given if value]
        return {
            "exports": [
                (one.name, Address(f"?{urlencode([*kept, (PARAMETER, one.name)])}"))
                for one in exports
            ]
        }


def _status(check: Callable[[], object] | str | None) -> int:
    """The status of a page whose own parameters may be wrong: its panels say what is."""
    try:
        if callable(check):
            check()
    except QuestionError:
        return 400
    except NotFoundError:
        return 404
    return 200
