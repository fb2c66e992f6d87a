"""The query parameters that name a cohort, the same for every view."""

from typing import Annotated

from fastapi import Query

Label = Annotated[str | None, Query()]
Moment = Annotated[
    str | None,
    Query(description="RFC 3339, or a duration back from now such as 15m", examples=["15m"]),
]
Tokens = Annotated[
    str | None, Query(description="1000..4000, 1000.., ..4000 or 512", examples=["1000.."])
]
Conditions = Annotated[
    str | None,
    Query(
        description="attributes of its spans, KEY=VALUE joined by &; write %26 for an & in one",
        examples=["tenant=acme"],
    ),
]


def cohort_query(  # noqa: PLR0913, PLR0917 - one argument a query parameter
    service: Label = None,
    route: Label = None,
    model: Label = None,
    version: Label = None,
    instance: Label = None,
    status: Annotated[str | None, Query(examples=["error"])] = None,
    input_tokens: Tokens = None,
    output_tokens: Tokens = None,
    where: Conditions = None,
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
        "status": status,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "where": where,
        "since": since,
        "until": until,
    }
