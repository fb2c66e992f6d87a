"""`GET /api/v1/objectives` and `GET /api/v1/alerts`."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from latencytrace.model import Objective
from latencytrace.service.alerting.document import alert_document, objective_document
from latencytrace.service.alerting.links import AlertLinks
from latencytrace.service.answers.documents import AlertsDocument, ObjectivesDocument
from latencytrace.service.clock import now_ns
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.objectives.evaluator import Evaluator
from latencytrace.service.objectives.report import ReportDocument, month_of, report

_Month = Annotated[
    str | None,
    Query(pattern=r"^\d{4}-\d{2}$", description="as 2026-11, in UTC; without it this month"),
]


def objectives_router(evaluator: Evaluator, links: AlertLinks) -> APIRouter:
    """The objectives, how they stand, and the alerts that fire."""
    router = APIRouter(tags=["objectives"])

    @router.get("/objectives", response_model=ObjectivesDocument)
    def objectives() -> Response:
        """Every objective with its burn rates and the budget that is left."""
        return JsonAnswer(objectives_document(evaluator))

    @router.get("/objectives/report", response_model=ReportDocument)
    def objectives_report(month: _Month = None) -> Response:
        """How each objective was kept in a month, and on each of its days."""
        return JsonAnswer(report(evaluator.watched.history(), month or month_of(now_ns())))

    @router.get("/alerts", response_model=AlertsDocument)
    def alerts() -> Response:
        """The alerts that fire, each with its cause and three requests."""
        return JsonAnswer(alerts_document(evaluator, links))

    return router


def objectives_document(evaluator: Evaluator) -> ObjectivesDocument:
    """`GET /objectives`."""
    return {"objectives": [objective_document(one) for one in evaluator.standings()]}


def alerts_document(evaluator: Evaluator, links: AlertLinks) -> AlertsDocument:
    """`GET /alerts`."""
    return {"alerts": [alert_document(one, links) for one in evaluator.alerts()]}


def watched_objectives(evaluator: Evaluator) -> list[Objective]:
    """The objectives themselves."""
    return [one.objective for one in evaluator.standings()]
