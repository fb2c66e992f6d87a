"""Releases in pictures over time: a dotted line where a version began."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import escape

from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import moment
from latencytrace.service.web.drawing.bars import number

_REACH = 6  # pixels beside a line that lead where it leads
_LONGEST = 16  # characters of a version
_LETTER = 6  # pixels


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A version of a service that began within the time of a picture."""

    service: str
    version: str
    before: str  # the version until then
    at_ns: int
    address: str  # of the comparison of both


def release_lines(
    releases: Sequence[Release],
    x: Callable[[int], float],
    top: int,
    bottom: int,
    name_at: int | None = None,
) -> str:
    """The lines, as elements of SVG: each leads to the comparison of before and after.

    Args:
        releases: The releases.
        x: The place of a moment.
        top: Where the lines begin.
        bottom: Where they end.
        name_at: How far down the version stands beside its line; None: nowhere.
    """
    lines, free_from = [], 0.0
    for one in releases:
        place = x(one.at_ns)
        has_room = name_at is not None and place >= free_from  # beside the name of the one before
        lines.append(_line(one, number(place), (top, bottom), name_at if has_room else None))
        if has_room:
            free_from = place + _LETTER * (min(len(one.version), _LONGEST) + 2)
    return "".join(lines)


def _line(one: Release, x: str, ends: tuple[int, int], name_at: int | None) -> str:
    said = f"version {one.version} of {one.service} began at {moment(one.at_ns)}: compare"
    text = escape(escaped(said))
    name = one.version if len(one.version) <= _LONGEST else f"{one.version[:_LONGEST]}…"
    path = f"M{x} {ends[0]}V{ends[1]}"
    label = (
        f'<text class="axis" x="{x}" y="{name_at}" dx="4">{escape(escaped(name))}</text>'
        if name_at is not None
        else ""
    )
    return (
        f'<a class="release" href="{escape(one.address)}" tabindex="-1" aria-label="{text}">'
        f'<title>{text}</title><path class="reach" d="{path}" stroke-width="{2 * _REACH}"/>'
        f'<path class="mark" d="{path}"/>{label}</a>'
    )
