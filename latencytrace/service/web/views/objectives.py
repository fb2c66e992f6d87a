"""`GET /api/v1/objectives` and `GET /api/v1/alerts`."""

import re
from typing import Annotated, Final

from fastapi import Query
from fastapi.responses import Response
from pydantic import AfterValidator, Field, WithJsonSchema

from latencytrace.errors import QuestionError
from latencytrace.model import Objective
from latencytrace.service.alerting.document import (
    AlertLinks,
    alert_document,
    maintenance_documents,
    objective_document,
)
from latencytrace.service.alerting.over_time import (
    ObjectivesOverTimeDocument,
    objectives_over_time,
)
from latencytrace.service.answers.documents import AlertsDocument, ObjectivesDocument
from latencytrace.service.clock import now_ns
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.objectives.alerts import first_standing
from latencytrace.service.objectives.evaluator import Evaluator
from latencytrace.service.objectives.report import ReportDocument, month_of, report
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import NO_PARAMETERS, KnownQuery

_MONTH: Final = "[1-9][0-9]{3}-(0[1-9]|1[0-2])"


def _month(text: str) -> str:
    if re.fullmatch(_MONTH, text) is None:
        raise QuestionError(f"month: {text!r} is none: write a year and a month, as 2026-11")
    return text


class ReportQuery(KnownQuery):
    """The month of a report."""

    month: Annotated[
        Annotated[
            str,
            AfterValidator(_month),
            WithJsonSchema({"type": "string", "pattern": f"^{_MONTH}$"}),
        ]
        | None,
        Field(description="as 2026-11, in UTC; without it this month"),
    ] = None


def objectives_router(evaluator: Evaluator, links: AlertLinks) -> ViewRouter:
    """The objectives, how they stand, and the alerts that fire."""
    router = ViewRouter(tags=["objectives"])

    @router.get("/objectives", response_model=ObjectivesDocument, dependencies=NO_PARAMETERS)
    def objectives() -> Response:
        """Every objective with its burn rates and the budget that is left."""
        return JsonAnswer(objectives_document(evaluator))

    @router.get(
        "/objectives/timeline",
        response_model=ObjectivesOverTimeDocument,
        dependencies=NO_PARAMETERS,
    )
    def timeline() -> Response:
        """Every objective's budget over its period, and its burn rates."""
        return JsonAnswer(objectives_over_time(evaluator))

    @router.get("/objectives/report", response_model=ReportDocument)
    def objectives_report(asked: Annotated[ReportQuery, Query()]) -> Response:
        """How each objective was kept in a month, and on each of its days."""
        return JsonAnswer(report(evaluator.watched.history(), asked.month or month_of(now_ns())))

    @router.get("/alerts", response_model=AlertsDocument, dependencies=NO_PARAMETERS)
    def alerts() -> Response:
        """The alerts that fire, each with its cause and three requests."""
        return JsonAnswer(alerts_document(evaluator, links))

    @router.get("/alerts/past", response_model=AlertsDocument, dependencies=NO_PARAMETERS)
    def past_alerts() -> Response:
        """The alerts that are over, the one that ended last first."""
        return JsonAnswer(past_alerts_document(evaluator))

    return router


def objectives_document(evaluator: Evaluator) -> ObjectivesDocument:
    """`GET /objectives`; those of each route that have seen none come last, as in the file."""
    at_ns = evaluator.clock()
    waiting = [first_standing(one, at_ns) for one in evaluator.watched.without_route()]
    return {
        "objectives": [objective_document(one) for one in (*evaluator.standings(), *waiting)],
        "maintenance": maintenance_documents(evaluator.maintenance, at_ns),
    }


def alerts_document(evaluator: Evaluator, links: AlertLinks) -> AlertsDocument:
    """`GET /alerts`."""
    return {"alerts": [alert_document(one, links) for one in evaluator.alerts()]}


def past_alerts_document(evaluator: Evaluator) -> AlertsDocument:
    """`GET /alerts/past`."""
    return {"alerts": evaluator.past_alerts()}


def watched_objectives(evaluator: Evaluator) -> list[Objective]:
    """The objectives themselves."""
    return [one.objective for one in evaluator.standings()]
