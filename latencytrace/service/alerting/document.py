"""Alerts and objectives as documents: of the API, and of what sinks send."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from latencytrace.model import Alert, BadRequest, Evidence, Standing
from latencytrace.model.objective import HOUR_NS
from latencytrace.service.alerting.text import description, request_text, summary
from latencytrace.service.answers.documents import (
    AlertDocument,
    BadRequestDocument,
    BurnRateDocument,
    FailingCallDocument,
    MaintenanceDocument,
    ObjectiveDocument,
    document,
)
from latencytrace.service.objectives.maintenance import Maintenance, MaintenanceWindows
from latencytrace.service.objectives.memory import ObjectiveMemory

_MARGIN_NS = HOUR_NS // 4  # around the alert, to see how it was before


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertLinks:
    """The addresses that links are built on."""

    service: str  # of this service, as readers reach it
    dashboard: str | None  # of a Grafana dashboard; None: the breakdown is linked instead
    is_profile: Callable[[str], bool] = lambda _: False  # whether a profile has this id

    def of_alerts_profile(self, alert: Alert) -> str | None:
        """The trace of the profile that an alert asked for; None: it asked for none."""
        known = self.is_profile(alert.fingerprint)
        return self.of_profile(alert.fingerprint) if known else None

    def of_profile(self, profile_id: str) -> str:
        return f"{self.service}/api/v1/profiles/{profile_id}/trace"

    def of_request(self, request: BadRequest) -> str:
        return (
            f"{self.service}/requests/{request.trace_id}?{urlencode({'span_id': request.span_id})}"
        )

    def of_alert(self, alert: Alert) -> str:
        """The dashboard, or the page of the breakdown, at the time of the alert."""
        objective = alert.standing.objective
        since_ns = alert.started_ns - (alert.window_ns or HOUR_NS) - _MARGIN_NS
        named = {
            "service": objective.service,
            "route": objective.route,
            "model": objective.model,
            "version": objective.version,
        }
        given = {name: value for name, value in named.items() if value is not None}
        if self.dashboard is None:
            times = {"since": _rfc3339(since_ns)}
            if alert.ended_ns is not None:
                times["until"] = _rfc3339(alert.ended_ns)
            return f"{self.service}/breakdown?{urlencode(given | times)}"
        until = "now" if alert.ended_ns is None else str((alert.ended_ns + _MARGIN_NS) // 10**6)
        variables = {f"var-{name}": value for name, value in given.items()}
        query = {
            "from": str(since_ns // 10**6),
            "to": until,
            "var-slo": objective.name,
            **variables,
        }
        separator = "&" if "?" in self.dashboard else "?"
        return f"{self.dashboard}{separator}{urlencode(query)}"


def _rfc3339(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def alert_document(alert: Alert, links: AlertLinks) -> AlertDocument:
    profile_url = links.of_alerts_profile(alert)
    return document(
        AlertDocument,
        alert,
        alert.standing,
        alert.evidence,
        status="firing" if alert.ended_ns is None else "resolved",
        summary=summary(alert),
        description=[*description(alert), *_profile(profile_url)],
        burn_rates=_burn_rates(alert.standing),
        failing_call=_failing_call(alert.evidence),
        slowest=[_bad_request(request, links) for request in alert.evidence.slowest],
        url=links.of_alert(alert),
        profile_url=profile_url,
    )


def objective_document(standing: Standing) -> ObjectiveDocument:
    objective = standing.objective
    return document(
        ObjectiveDocument,
        standing,
        objective,
        measure=objective.measured,
        threshold_ns=objective.limit_ns,
        time_slice_ns=objective.slices.length_ns if objective.slices else None,
        time_slice_target_ratio=objective.slices.target_ratio if objective.slices else None,
        requests=standing.total,
        bad_requests=standing.bad,
        burn_rates=_burn_rates(standing),
    )


def maintenance_documents(windows: MaintenanceWindows, now_ns: int) -> list[MaintenanceDocument]:
    """The windows that are not over, in order."""
    return [
        maintenance_document(window, now_ns, is_in_file=is_in_file)
        for window, is_in_file in windows.open_at(now_ns)
    ]


def maintenance_document(
    window: Maintenance, now_ns: int, *, is_in_file: bool = False
) -> MaintenanceDocument:
    return document(
        MaintenanceDocument,
        window,
        objectives=sorted(window.objectives),
        services=sorted(window.services),
        is_on=window.start_ns <= now_ns < window.end_ns,
        is_in_file=is_in_file,
    )


def _profile(url: str | None) -> tuple[str, ...]:
    if url is None:
        return ()
    return (f"Profile of the steps after this alert began, once it is taken: {url}",)


def _burn_rates(standing: Standing) -> list[BurnRateDocument]:
    return [document(BurnRateDocument, rate, rate.rule) for rate in standing.rates]


def _failing_call(evidence: Evidence) -> FailingCallDocument | None:
    return None if evidence.failing is None else document(FailingCallDocument, evidence.failing)


def _bad_request(request: BadRequest, links: AlertLinks) -> BadRequestDocument:
    return document(
        BadRequestDocument,
        request,
        ledger={str(stage): length for stage, length in request.ledger.items()},
        summary=request_text(request),
        url=links.of_request(request),
    )


Changed = Callable[[Iterable[Alert]], None]


def keeping_past(memory: ObjectiveMemory, links: AlertLinks, changed: Changed) -> Changed:
    """Return what takes alerts that began or ended: it keeps the ended ones and hands all on."""

    def noted(alerts: Iterable[Alert]) -> None:
        every = tuple(alerts)
        over = [alert_document(one, links) for one in every if one.ended_ns is not None]
        if over:
            memory.keep_past(over)
        changed(every)

    return noted
