"""Addresses at which an alert's reader finds more, with the time range filled in."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from latencytrace.model import Alert, BadRequest
from latencytrace.model.objective import HOUR_NS

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
        """The trace of a profile."""
        return f"{self.service}/api/v1/profiles/{profile_id}/trace"

    def of_request(self, request: BadRequest) -> str:
        """The page of one request."""
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
