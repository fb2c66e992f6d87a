"""The query parameters that name a cohort, the same for every view."""

from typing import Annotated

from fastapi import Query

Label = Annotated[str | None, Query()]
Moment = Annotated[
    str | None,
    Query(description="RFC 3339, or a duration back from now such as 15m", examples=["15m"]),
]


def cohort_query(  # noqa: PLR0913, PLR0917 - one argument a query parameter
    service: Label = None,
    route: Label = None,
    model: Label = None,
    version: Label = None,
    instance: Label = None,
    since: Moment = None,
    until: Moment = None,
) -> dict[str, str | None]:
    """Collect them; `answers.cohort_of` makes a cohort of them."""
    return {
        "service": service,
        "route": route,
        "model": model,
        "version": version,
        "instance": instance,
        "since": since,
        "until": until,
    }
