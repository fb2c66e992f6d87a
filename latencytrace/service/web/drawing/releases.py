"""Releases in pictures over time: a dotted line where a version began."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import escape

from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import moment
from latencytrace.service.web.drawing.axes import BOTTOM, HEIGHT, TOP, Axes
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


def release_lines(releases: Sequence[Release], axes: Axes) -> str:
    """The lines, as elements of SVG: each leads to the comparison of before and after."""
    return "".join(_line(one, axes) for one in releases)


def _line(one: Release, axes: Axes) -> str:
    x = number(axes.x(one.at_ns))
    said = f"version {one.version} of {one.service} began at {moment(one.at_ns)}: compare"
    name = one.version if len(one.version) <= _LONGEST else f"{one.version[:_LONGEST]}…"
    return (
        f'<a class="release" href="{escape(one.address)}" tabindex="-1" '
        f'aria-label="{escape(escaped(said))}"><title>{escape(escaped(said))}</title>'
        f'<path class="reach" d="M{x} {TOP}V{HEIGHT - BOTTOM}" stroke-width="{2 * _REACH}"/>'
        f'<path class="line" d="M{x} {TOP}V{HEIGHT - BOTTOM}"/>'
        f'<text class="axis" x="{x}" y="{TOP + 8}" dx="4">{escape(escaped(name))}</text></a>'
    )
