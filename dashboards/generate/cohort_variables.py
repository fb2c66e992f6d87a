"""What can be chosen: which service that was scraped, and which requests it has seen."""

from typing import Final

from dashboards.generate.dashboard import Json, annotation, variable
from dashboards.generate.queries import REQUESTS, SCRAPED

_RECEIVED: Final = "latencytrace_service_spans_received_total"
_OF_SERVICE: Final = f'{SCRAPED},service=~"$service"'

SCRAPED_VARIABLES: Final[list[Json]] = [
    variable("job", _RECEIVED, every=".+"),
    variable("instance", f'{_RECEIVED}{{job=~"$job"}}', every=".+"),
]
COHORT_VARIABLES: Final[list[Json]] = [
    *SCRAPED_VARIABLES,
    variable("service", f"{REQUESTS}{{{SCRAPED}}}"),
    variable("route", f"{REQUESTS}{{{_OF_SERVICE}}}"),
    variable("model", f'{REQUESTS}{{{_OF_SERVICE},route=~"$route"}}'),
]


def alerts(more: str = "") -> Json:
    """Marks when an objective's alert fires; those of whole services whatever route is chosen."""
    where = f'{_OF_SERVICE},route=~"|$route"{more}'
    firing = f"max by (alertname, slo, severity) (latencytrace_slo_alert_firing{{{where}}}) == 1"
    return annotation("Alerts", firing, "{{severity}} {{alertname}}: {{slo}}", "red")
