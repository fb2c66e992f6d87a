"""The alerts that an earlier process announced, from what it kept of each objective."""

import json
import logging
from collections.abc import Iterator, Mapping

from pydantic import TypeAdapter, ValidationError

from latencytrace.model import Alert, AlertKind, Objective, Severity, Standing
from latencytrace.service.objectives.alerts import NO_EVIDENCE
from latencytrace.service.objectives.state import Announced

_OBJECTIVE = TypeAdapter(Objective)
_log = logging.getLogger(__name__)


def earlier_alerts(states: Mapping[str, str]) -> Iterator[Alert]:
    """Yield the alerts announced and not over, of objectives that may have left the file.

    Args:
        states: The state kept of each series.
    """
    for series, text in states.items():
        try:
            yield from _alerts(json.loads(text))
        except ValidationError as error:
            faults = "; ".join(
                f"{one['loc'][-1]}: {one['msg']}, not {one['input']!r}" for one in error.errors()
            )
            _log.warning("what was kept of %s is not understood: %s", series, faults)


def kept_objective(text: str) -> Objective | None:
    """Return the objective whose state was kept; None: it is not understood."""
    try:
        return _OBJECTIVE.validate_python(json.loads(text).get("objective"))
    except ValidationError:
        return None


def _alerts(kept: Mapping[str, object]) -> list[Alert]:
    match kept:
        case {"objective": dict() as fields, "announced": dict() as announced}:
            standing = _standing(_OBJECTIVE.validate_python(fields))
            return [
                _alert(key, Announced.read(began), standing) for key, began in announced.items()
            ]
        case _:
            return []


def _standing(objective: Objective) -> Standing:
    """The standing of an objective without counts."""
    return Standing(
        objective=objective,
        rates=(),
        bad=0,
        total=0,
        budget_left_ratio=None,
        exhaustion_ns=None,
        last_request_ns=None,
    )


def _alert(key: str, began: Announced, standing: Standing) -> Alert:
    kind, _, severity = key.partition("/")
    return Alert(
        kind=AlertKind(kind),
        severity=Severity(severity),
        onset_ns=began.onset_ns,
        started_ns=began.started_ns,
        ended_ns=None,
        bad_ratio=None,
        window_ns=None,
        standing=standing,
        evidence=NO_EVIDENCE,
        acknowledged=began.acknowledged,
    )
