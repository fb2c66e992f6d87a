"""`latencytrace profile`: what torch did in a program that serves, for some steps."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast
from urllib.parse import quote

import typer
from rich.console import RenderableType

from latencytrace.cli.pictures.fitted_table import FittedTable
from latencytrace.cli.pictures.lines import complain, say
from latencytrace.cli.pictures.profile_operators import operators
from latencytrace.cli.pictures.terminal import say_document, screen, show
from latencytrace.cli.processes import options
from latencytrace.cli.processes.output_file import write_whole
from latencytrace.cli.source import reading
from latencytrace.errors import ProfileError
from latencytrace.model.profile import DEFAULT_SECONDS, DEFAULT_STEPS, MAX_SECONDS, MAX_STEPS
from latencytrace.model.texts.units import count, duration, share, size
from latencytrace.service.answers.documents import ProfileDocument

LOOK_EVERY_S = 0.2
SHOWN = 12  # operators
_OPEN = {"waiting", "taken"}


def profile(
    profile_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Fetch this one, which is there already.")
    ] = None,
    *,
    service: Annotated[str | None, typer.Option(help="Of this service. Default: any.")] = None,
    steps: Annotated[
        int, typer.Option(min=1, max=MAX_STEPS, help="Record so many steps …")
    ] = DEFAULT_STEPS,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=MAX_SECONDS, help="… or so long, whichever is less.")
    ] = DEFAULT_SECONDS,
    out: Annotated[
        Path | None,
        typer.Option(readable=False, help="Where to save it. Default: profile-ID.json.gz here."),
    ] = None,
    wait: Annotated[float, typer.Option(min=1, help="Give up after so many seconds.")] = 90.0,
    listed: Annotated[
        bool, typer.Option("--list", help="List the profiles that are kept.")
    ] = False,
    as_json: options.AsJson = False,
    url: options.Url = None,
) -> None:
    """Record what torch does in a program that serves, for a few steps, and save it.

    Example: latencytrace profile --service rag --steps 20
    """
    if profile_id is not None and not profile_id.strip():
        raise typer.BadParameter("it is empty: --list names those there are", param_hint="ID")
    source = reading.service(url)
    if listed:
        _list(source, as_json=as_json)
        return
    if profile_id is not None:
        found = _one(source, profile_id)
    else:
        wanted = {"service": service, "steps": steps, "seconds": seconds}
        found = _taken(source, wanted, wait)
    if found["state"] != "kept":
        raise ProfileError(f"there is no profile: {found['phase']}")
    packed = source.body(f"/profiles/{found['id']}/trace", {})
    path = out or Path(f"profile-{found['id'][:8]}.json.gz")
    try:
        write_whole(path, packed)
    except OSError as error:
        raise ProfileError(
            f"{path} cannot be written: {error.strerror}; the profile is kept: "
            f"latencytrace profile {found['id']} --out FILE"
        ) from None
    if as_json:
        say_document(found)
    else:
        show(screen(), *_picture(found, path, packed))


def _taken(source: reading.ServiceSource, wanted: object, wait_s: float) -> ProfileDocument:
    """Ask for one and wait for it; an interrupt cancels it."""
    asked = cast(ProfileDocument, source.send("POST", "/profiles", wanted))
    try:
        return _awaited(lambda: _one(source, asked["id"]), wait_s)
    except BaseException:
        source.send("DELETE", f"/profiles/{asked['id']}", None)
        raise


def _awaited(look: Callable[[], ProfileDocument], wait_s: float) -> ProfileDocument:
    """The document, once it is decided what becomes of it; its phases are shown meanwhile."""
    deadline_s, shown = time.monotonic() + wait_s, None
    while (found := look())["state"] in _OPEN:
        if found["phase"] != shown:
            shown = found["phase"]
            complain(shown)
        if time.monotonic() > deadline_s:
            raise ProfileError(
                f"nothing came within {wait_s:.0f} s ({shown}): does the program serve requests? "
                "A process takes a profile when its model makes a step"
            )
        time.sleep(LOOK_EVERY_S)
    return found


def _one(source: reading.ServiceSource, profile_id: str) -> ProfileDocument:
    return cast(ProfileDocument, source.document(f"/profiles/{quote(profile_id, safe='')}", {}))


def _list(source: reading.ServiceSource, *, as_json: bool) -> None:
    document = source.document("/profiles", {})
    if as_json:
        say_document(document)
        return
    found = cast("dict[str, list[ProfileDocument]]", document)["profiles"]
    if not found:
        say("No profile was asked for so far.")
        return
    drawn = FittedTable(
        *("id", "service", "asked by", "steps", "state"),
        left=("id", "service", "state"),
        name="service",
        leave_out=("asked by", "steps"),
    )
    for one in found:
        drawn.add_row(
            one["id"],
            one["service"] or "",
            "an alert" if one["cause"] else "hand",
            "" if one["steps"] is None else str(one["steps"]),
            one["state"] if one["state"] == one["phase"] else f"{one['state']}: {one['phase']}",
        )
    show(screen(), drawn)


def _picture(found: ProfileDocument, path: Path, packed: bytes) -> list[RenderableType]:
    took_ns = int(found["ended"] or 0) - int(found["began"] or 0)
    seen = len(found["trace_ids"])
    summary = (
        f"{count(found['steps'] or 0, 'step')} of {found['service']} in {duration(took_ns)}, "
        f"with {count(seen, 'request')} under way; afterwards the program stood still for "
        f"{duration(found['held_ns'])}"
    )
    top = operators(packed)
    with_device = any(one.device_us for one in top)
    whole_us = sum(one.device_us if with_device else one.cpu_us for one in top)
    drawn = FittedTable(
        *("operator", "calls", "CPU", *(["GPU"] if with_device else []), "share"),
        left=("operator",),
        name="operator",
        leave_out=("calls", "CPU" if with_device else "share"),
    )
    for one in top[:SHOWN]:
        part_us = one.device_us if with_device else one.cpu_us
        drawn.add_row(
            one.name,
            f"{one.calls:,}",
            duration(one.cpu_us * 1000),
            *([duration(one.device_us * 1000)] if with_device else []),
            share(part_us / whole_us if whole_us else None),
        )
    saved = (
        f"Saved as {path} ({size(len(packed))}): open it at https://ui.perfetto.dev (it "
        "stays in your browser), or in chrome://tracing."
    )
    return [summary, "", drawn, "", saved]
