"""The cohorts that requests are counted in, bounded."""

from typing import Final

from latencytrace.model import Request

MAX_COHORTS: Final = 200
MAX_LABEL_CHARACTERS: Final = 200
OVERFLOW: Final = "overflow"
OVERFLOWED: Final = (OVERFLOW, OVERFLOW, OVERFLOW)


class RequestCohorts:
    """Combinations of service, route and model, the first of them as they came.

    Args:
        most: How many there may be; requests of others belong to `OVERFLOWED`.
    """

    def __init__(self, most: int = MAX_COHORTS) -> None:
        self._most = most
        self._known: set[tuple[str, str, str]] = set()

    def of(self, request: Request) -> tuple[str, str, str]:
        """Service, route and model; each bounded, and empty where unknown."""
        return self.named(request.service, request.route, request.model)

    def named(self, service: str, route: str, model: str | None) -> tuple[str, str, str]:
        """The cohort of this service, route and model."""
        cohort = (_label(service), _label(route), _label(model))
        if cohort in self._known:
            return cohort
        if len(self._known) >= self._most:
            return OVERFLOWED
        self._known.add(cohort)
        return cohort


def _label(text: str | None) -> str:
    return (text or "")[:MAX_LABEL_CHARACTERS]
