"""Writes of those on call: acknowledged alerts, and windows of maintenance."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Final

from fastapi.responses import Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from latencytrace.errors import NotFoundError, QuestionError
from latencytrace.model import Acknowledgement
from latencytrace.model.objective import DAY_NS, HOUR_NS, MINUTE_NS
from latencytrace.service.alerting.document import (
    AlertLinks,
    alert_document,
    maintenance_document,
    maintenance_documents,
)
from latencytrace.service.answers.documents import (
    AlertDocument,
    MaintenanceDocument,
    MaintenancesDocument,
)
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.objectives.evaluator import Evaluator
from latencytrace.service.objectives.maintenance import LONGEST_NS, Maintenance
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import NO_PARAMETERS

_UNITS_NS: Final = {"m": MINUTE_NS, "h": HOUR_NS, "d": DAY_NS}
_AHEAD_NS: Final = 366 * DAY_NS
_LATE_NS: Final = MINUTE_NS  # by which a start may lie in the past: clocks differ
_DURATION: Final = re.compile(r"[1-9][0-9]{0,4}[mhd]")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PLAIN: Final = r"^[^\x00-\x1f\x7f]*$"
_Names = Annotated[list[Annotated[str, Field(max_length=500)]], Field(max_length=100)]


class Said(BaseModel):
    """Name of who looks after an alert, and what there is to say."""

    model_config = ConfigDict(extra="forbid")

    by: Annotated[str | None, Field(max_length=100, pattern=_PLAIN)] = None
    note: Annotated[str | None, Field(max_length=500, pattern=_PLAIN)] = None


class Wanted(BaseModel):
    """A window of maintenance: from now on or from a start, until an end or for so long."""

    model_config = ConfigDict(extra="forbid")

    name: str
    start: AwareDatetime | None = None
    end: AwareDatetime | None = None
    duration: str | None = None
    objectives: _Names = []
    services: _Names = []

    def window(self, now_ns: int) -> Maintenance:
        """The window that is meant.

        Raises:
            QuestionError: The document is not a window of maintenance.
        """
        if _NAME.fullmatch(self.name) is None:
            raise QuestionError(
                "name: write at most 63 letters, digits, dots, dashes and underscores, the "
                "first and the last a letter or a digit"
            )
        start_ns = now_ns if self.start is None else round(self.start.timestamp()) * 10**9
        if start_ns < now_ns - _LATE_NS:
            raise QuestionError("start: it is over, and what was counted stays counted")
        if start_ns > now_ns + _AHEAD_NS:
            raise QuestionError("start: it is more than a year ahead")
        if (self.end is None) == (self.duration is None):
            raise QuestionError("say either an end or a duration, as 2h")
        if self.duration is not None:
            if _DURATION.fullmatch(self.duration) is None:
                raise QuestionError("duration: write minutes, hours or days, as 30m, 2h or 1d")
            end_ns = start_ns + int(self.duration[:-1]) * _UNITS_NS[self.duration[-1]]
        else:
            end_ns = 0 if self.end is None else round(self.end.timestamp()) * 10**9
        if not 0 < end_ns - start_ns <= LONGEST_NS:
            raise QuestionError("it must end after its start, and within 31 days")
        return Maintenance(
            name=self.name,
            start_ns=start_ns,
            end_ns=end_ns,
            objectives=frozenset(self.objectives),
            services=frozenset(self.services),
        )


def maintenance_router(
    evaluator: Evaluator, links: AlertLinks, now_ns: Callable[[], int]
) -> ViewRouter:
    """Acknowledgements and maintenance that people tell an evaluator.

    Args:
        now_ns: The time of day.
    """
    router = ViewRouter(tags=["objectives"], dependencies=NO_PARAMETERS)

    def noted(fingerprint: str, said: Acknowledgement | None) -> Response:
        alert = evaluator.acknowledge(fingerprint, said)
        if alert is None:
            raise NotFoundError(
                f"no alert {fingerprint!r} fires: GET /alerts lists the ones that do"
            )
        return JsonAnswer(alert_document(alert, links))

    @router.post("/alerts/{fingerprint}/acknowledge", response_model=AlertDocument)
    def acknowledge(fingerprint: str, said: Said) -> Response:
        """Acknowledge an alert: no more reminders are sent."""
        return noted(fingerprint, Acknowledgement(at_ns=now_ns(), by=said.by, note=said.note))

    @router.delete("/alerts/{fingerprint}/acknowledge", response_model=AlertDocument)
    def withdraw(fingerprint: str) -> Response:
        """Remove the acknowledgement."""
        return noted(fingerprint, None)

    @router.get("/maintenance", response_model=MaintenancesDocument)
    def listed() -> Response:
        """The windows of maintenance that are not over."""
        return JsonAnswer({"maintenance": maintenance_documents(evaluator.maintenance, now_ns())})

    @router.post(
        "/maintenance", response_model=MaintenanceDocument, status_code=HTTPStatus.CREATED
    )
    def begin(wanted: Wanted) -> Response:
        """Count nothing for a while, and alert of nothing."""
        now = now_ns()
        window = wanted.window(now)
        _check_names(window, evaluator.watched.names())
        evaluator.maintenance.begin(window, now)
        return JsonAnswer(maintenance_document(window, now), HTTPStatus.CREATED)

    @router.delete("/maintenance/{name}", response_model=MaintenanceDocument)
    def end(name: str) -> Response:
        """End a window now, or forget one that has not begun."""
        now = now_ns()
        return JsonAnswer(maintenance_document(evaluator.maintenance.end(name, now), now))

    return router


def _check_names(window: Maintenance, names: set[str]) -> None:
    for unknown in sorted(window.objectives - names):
        there = ", ".join(sorted(names)) or "none"
        raise QuestionError(f"objectives: there is no {unknown!r}; there are: {there}")
