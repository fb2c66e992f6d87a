"""Releases in pictures over time: a dotted line where a version began."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import escape

from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import moment
from latencytrace.service.web.drawing.bars import number

_REACH = 6  # pixels beside a line that lead where it leads
_LONGEST = 16  # characters of a version


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
    *,
    named: bool = True,
) -> str:
    """The lines, as elements of SVG: each leads to the comparison of before and after.

    Args:
        releases: The releases.
        x: The place of a moment.
        top: Where the lines begin.
        bottom: Where they end.
        named: Whether the version stands beside its line.
    """
    return "".join(
        _line(one, number(x(one.at_ns)), (top, bottom), named=named) for one in releases
    )


def _line(one: Release, x: str, ends: tuple[int, int], *, named: bool) -> str:
    said = f"version {one.version} of {one.service} began at {moment(one.at_ns)}: compare"
    text = escape(escaped(said))
    name = one.version if len(one.version) <= _LONGEST else f"{one.version[:_LONGEST]}…"
    path = f"M{x} {ends[0]}V{ends[1]}"
    label = (
        f'<text class="axis" x="{x}" y="{ends[0] + 8}" dx="4">{escape(escaped(name))}</text>'
        if named
        else ""
    )
    return (
        f'<a class="release" href="{escape(one.address)}" tabindex="-1" aria-label="{text}">'
        f'<title>{text}</title><path class="reach" d="{path}" stroke-width="{2 * _REACH}"/>'
        f'<path class="mark" d="{path}"/>{label}</a>'
    )
