"""Templates made into answers: all text escaped, frames sent before slow panels are asked for."""

import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from typing import Final, NamedTuple

import orjson
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from latencytrace.errors import LatencytraceError
from latencytrace.model.objective import length_text
from latencytrace.model.texts import units
from latencytrace.model.texts.escaped import escaped
from latencytrace.service.web.drawing.bars import in_order, pair_bar, share_bar, stacked_bar
from latencytrace.service.web.pages.assets import Assets

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "private, no-cache",
}
LONGEST_TEXT: Final = 300  # characters of a sender's text that a page shows
_FLUSH: Final = Markup("\x00")  # no text has it: controls are escaped
_ENDS: Final = re.compile(r"(?<=[._/])(?=\w)")  # of the words of an attribute's name
_PIECE: Final = 16_384  # characters that are sent at once


class Address(str):
    """An address within these pages: whole, however long, and encoded."""

    __slots__ = ()


class PageLink(NamedTuple):
    """A page that the navigation leads to."""

    path: str
    title: str
    key: str  # after `g`


NAVIGATION: Final = (
    PageLink("/", "Overview", "o"),
    PageLink("/breakdown", "Breakdown", "b"),
    PageLink("/tail", "Why slow", "t"),
    PageLink("/requests", "Requests", "r"),
    PageLink("/compare", "Compare", "c"),
    PageLink("/whatif", "What-if", "w"),
    PageLink("/capacity", "Capacity", "p"),
    PageLink("/objectives", "SLOs", "s"),
    PageLink("/gpu", "GPU", "u"),
    PageLink("/health", "Health", "h"),
)


class Renderer:
    """Makes answers of templates."""

    def __init__(self, assets: Assets) -> None:
        self._templates = Environment(
            loader=PackageLoader(__package__),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            duration=units.duration,
            exact=units.exact,
            part_of=units.part_of,
            share=units.share,
            signed=units.signed,
            target=units.target,
            times=units.times,
            chance=units.chance,
            clock=units.clock,
            count=units.count,
            period=length_text,
            moment=units.moment,
            whole=str,
            field=_field,
            figure=units.figure,
            parted=_parted,
            grouped=units.grouped,
            size=units.size,
            changed_by=units.changed_by,
            in_order=in_order,
        )
        self._templates.globals.update(
            asset=assets.address,
            flush=_FLUSH,
            interval=units.interval,
            legend_of=lambda stages: [(stage, "") for stage, _ in in_order(stages)],
            navigation=NAVIGATION,
            pair_bar=pair_bar,
            panel=_panel,
            share_bar=share_bar,
            shares=units.shares,
            stacked_bar=stacked_bar,
            version=version("latencytrace"),
        )

    def page(
        self,
        template: str,
        context: Mapping[str, object],
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Answer with a page as a whole."""
        text = self._templates.get_template(template).render(context)
        return HTMLResponse(text.replace(_FLUSH, ""), status, {**HEADERS, **(headers or {})})

    def streamed(
        self, template: str, context: Mapping[str, object], status: int = 200
    ) -> Response:
        """Answer with a page whose panels follow its frame, as they are ready."""
        pieces = _pieces(self._templates.get_template(template).generate(context))
        return StreamingResponse(pieces, status, HEADERS, "text/html; charset=utf-8")


def json_block(value: object) -> Markup:
    """Data for a script, which no name in them can end."""
    text = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()  # numbers are keys
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - JSON without a `<`


def _shown(value: object) -> object:
    """A value as pages show it: senders' texts on one line, without characters that act."""
    if value is None:
        return units.UNKNOWN
    if not isinstance(value, str) or isinstance(value, Address | Markup):
        return value
    if len(value) > LONGEST_TEXT:
        value = f"{value[:LONGEST_TEXT]}… ({len(value):,} characters)"
    return escaped(value)


def _parted(name: str) -> Markup:
    """A name of several words, which is broken between these where it is too long."""
    return Markup(_ENDS.sub("<wbr>", escape(_shown(name))))  # noqa: S704 - escaped


def _field(text: str) -> Markup:
    """A value of a form, whole and as it is: sent back it must mean the same."""
    return escape(text.encode("utf-8", "replace").decode())


def _panel(caller: Callable[[], Markup]) -> Markup:
    """A panel, or the reason why there is none: the others still come."""
    try:
        found = caller()
    except LatencytraceError as error:
        found = Markup('<p class="problem" role="alert">{}</p>').format(escaped(str(error)))
    return Markup("<div data-panel>{}</div>").format(found)


def _pieces(texts: Iterator[str]) -> Iterator[str]:
    waiting: list[str] = []
    size = 0
    for text in texts:
        ends = _FLUSH in text
        waiting.append(text.replace(_FLUSH, "") if ends else text)
        size += len(text)
        if ends or size > _PIECE:
            yield "".join(waiting)
            waiting, size = [], 0
    yield "".join(waiting)
