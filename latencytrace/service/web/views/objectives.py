"""`GET /api/v1/objectives` and `GET /api/v1/alerts`."""

from fastapi import APIRouter
from fastapi.responses import Response

from latencytrace.service.alerting.document import alert_document, objective_document
from latencytrace.service.alerting.links import AlertLinks
from latencytrace.service.answers.documents import AlertsDocument, ObjectivesDocument
from latencytrace.service.net.json_answer import JsonAnswer
from latencytrace.service.objectives.evaluator import Evaluator


def objectives_router(evaluator: Evaluator, links: AlertLinks) -> APIRouter:
    """The objectives, how they stand, and the alerts that fire."""
    router = APIRouter(tags=["objectives"])

    @router.get("/objectives", response_model=ObjectivesDocument)
    def objectives() -> Response:
        """Every objective with its burn rates and the budget that is left."""
        return JsonAnswer(objectives_document(evaluator))

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
