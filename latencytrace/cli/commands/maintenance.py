"""`latencytrace maintenance`: have objectives not hold for a while."""

from typing import Annotated, cast
from urllib.parse import quote

import typer

from latencytrace.cli.pictures import standings
from latencytrace.cli.pictures.terminal import say_document, screen, show
from latencytrace.cli.processes import options
from latencytrace.cli.source import reading
from latencytrace.service.answers.documents import MaintenanceDocument


def maintenance(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The window.", show_default=False)
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--for", metavar="2h", help="Begin one, for so long.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="As 2026-11-28T22:00:00Z. Default: now.")
    ] = None,
    objective: Annotated[
        list[str] | None, typer.Option(help="That it is for; may be repeated. Default: all.")
    ] = None,
    service: Annotated[
        list[str] | None, typer.Option(help="Whose objectives it is for; may be repeated.")
    ] = None,
    *,
    end: Annotated[bool, typer.Option("--end", help="End it now.")] = False,
    as_json: options.AsJson = False,
    url: options.Url = None,
) -> None:
    """Begin or end a window of maintenance, or list the ones that are not over.

    Requests that end within one are not counted for objectives, and no alert begins.

    Example: latencytrace maintenance new-cards --for 2h --objective chat-e2e
    """
    is_begun = duration is not None
    if (name is None) == (is_begun or end) or (is_begun and end):
        raise typer.BadParameter("name a window with --for or --end, or none to list them")
    if not is_begun and (start is not None or objective or service):
        raise typer.BadParameter("say with --for how long it lasts", param_hint="--for")
    source = reading.service(url)
    if name is None:
        found = reading.objectives(source)["maintenance"]
    elif end:
        path = f"/maintenance/{quote(name, safe='')}"
        found = [cast(MaintenanceDocument, source.send("DELETE", path, None))]
    else:
        wanted: dict[str, object] = {"name": name, "duration": duration}
        wanted |= {} if start is None else {"start": start}
        wanted |= {"objectives": objective or [], "services": service or []}
        found = [cast(MaintenanceDocument, source.send("POST", "/maintenance", wanted))]
    if as_json:
        say_document({"maintenance": found})
    else:
        show(screen(), *(standings.windows(found) or ["There is no window of maintenance."]))
