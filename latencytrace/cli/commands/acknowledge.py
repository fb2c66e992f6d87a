"""`latencytrace acknowledge`: acknowledge an alert that fires."""

from typing import Annotated, cast
from urllib.parse import quote

import typer

from latencytrace.cli.pictures.terminal import say_document, screen, show
from latencytrace.cli.processes import options
from latencytrace.cli.source import reading
from latencytrace.errors import LatencytraceError
from latencytrace.service.answers.documents import AlertDocument

_LEAST = 4  # letters of a fingerprint


def acknowledge(
    alert: Annotated[
        str, typer.Argument(metavar="ALERT", help="The objective, or the alert's fingerprint.")
    ],
    *,
    by: Annotated[str | None, typer.Option(help="Who looks after it.")] = None,
    note: Annotated[str | None, typer.Option(help="What there is to say.")] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Remove the acknowledgement.")
    ] = False,
    as_json: options.AsJson = False,
    url: options.Url = None,
) -> None:
    """Acknowledge an alert that fires.

    No more reminders are sent; its end is sent as ever. The name and the note are shown
    with the alert until then.

    Example: latencytrace acknowledge chat-e2e --by Ada --note "index is being rebuilt"
    """
    if withdraw and (by is not None or note is not None):
        raise typer.BadParameter("leave out --by and --note", param_hint="--withdraw")
    source = reading.service(url)
    noted = [
        cast(
            AlertDocument,
            source.send(
                "DELETE" if withdraw else "POST",
                f"/alerts/{quote(one['fingerprint'], safe='')}/acknowledge",
                {"by": by, "note": note},
            ),
        )
        for one in _named(reading.alerts(source), alert)
    ]
    if as_json:
        say_document({"alerts": noted})
    else:
        done = "Withdrawn" if withdraw else "Acknowledged"
        show(screen(), *(f"{done}: {one['summary']}" for one in noted))


def _named(firing: list[AlertDocument], name: str) -> list[AlertDocument]:
    """The alerts of an objective, or with a fingerprint.

    Raises:
        LatencytraceError: None of them fires.
    """
    found = [
        one
        for one in firing
        if one["labels"]["slo"] == name
        or (len(name) >= _LEAST and one["fingerprint"].startswith(name))
    ]
    if not found:
        names = sorted({f"{one['labels']['slo']} ({one['fingerprint'][:8]})" for one in firing})
        raise LatencytraceError(
            f"no alert of {name!r} fires; there is " + (", ".join(names) or "none at all")
        )
    return found
