"""Notices of an alert, with everything in them that could be."""

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.model import (
    Alert,
    AlertKind,
    BadRequest,
    BurnRates,
    Distinction,
    Evidence,
    GuiltyStage,
    RequestStatus,
    Severity,
    Stage,
    Standing,
)
from latencytrace.service.alerting.document import AlertLinks, alert_document
from latencytrace.service.sink import Notification, Transition
from tests.support.builders.made_objectives import SECOND_NS, made_objective
from tests.support.builders.made_requests import SPAN, TRACE
from tests.support.builders.traffic import START_NS

LINKS = AlertLinks(service="http://127.0.0.1:8321", dashboard=None)
RULE = burn_rules(made_objective())[1]


def made_alert(
    name: str = "chat-e2e",
    *,
    started_ns: int = START_NS,
    ended_ns: int | None = None,
    route: str = "POST /chat",
    requests: int = 100,
) -> Alert:
    """A page with its evidence."""
    objective = made_objective(name=name, route=route)
    rates = BurnRates(rule=RULE, long=20.0, short=30.0, firing=ended_ns is None)
    worst = BadRequest(
        trace_id=TRACE,
        span_id=SPAN,
        status=RequestStatus.OK,
        duration_ns=3 * SECOND_NS,
        ledger={Stage.RETRIEVE: 2 * SECOND_NS, Stage.DECODE: SECOND_NS},
    )
    return Alert(
        kind=AlertKind.BURN,
        severity=Severity.PAGE,
        onset_ns=started_ns - 600 * SECOND_NS,
        started_ns=started_ns,
        ended_ns=ended_ns,
        bad_ratio=0.2,
        window_ns=RULE.long_ns,
        standing=Standing(
            objective=objective,
            rates=(rates,),
            bad=20,
            total=requests,
            budget_left_ratio=0.8,
            exhaustion_ns=3600 * SECOND_NS,
            last_request_ns=started_ns,
        ),
        evidence=Evidence(
            guilty=GuiltyStage(stage=Stage.RETRIEVE, excess_ns=SECOND_NS, share_ratio=0.9),
            failed_ratio=0.0,
            version="1.0 <beta>",
            distinctions=(
                Distinction(trait="instance", value="rag-2", bad_ratio=0.9, good_ratio=0.3),
                Distinction(trait="version", value="1.0 <beta>", bad_ratio=0.8, good_ratio=0.3),
            ),
            slowest=(worst,) * 3,
        ),
    )


def made_notice(
    transition: Transition = Transition.BEGAN, sink: str = "webhook", alert: Alert | None = None
) -> Notification:
    """A notice as the outbox would make it."""
    ended_ns = START_NS + 60 * SECOND_NS if transition is Transition.ENDED else None
    about = alert or made_alert(ended_ns=ended_ns)
    return Notification(
        key=f"{about.fingerprint}:{transition}",
        sink=sink,
        transition=transition,
        alert=alert_document(about, LINKS),
        due_ns=START_NS,
    )
