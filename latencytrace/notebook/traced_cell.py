"""The requests of a cell, as a notebook and as a terminal shows them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.console import RenderableType

from latencytrace.analysis.build_trace import build_traces
from latencytrace.analysis.ledger.critical_path import critical_path
from latencytrace.analysis.ledger.requests import request_of
from latencytrace.cli.commands.breakdown import picture
from latencytrace.cli.pictures.terminal import Screen, fit
from latencytrace.cli.pictures.waterfall import waterfall
from latencytrace.model import Request, Span, Stage, Trace
from latencytrace.model.stage_colours import STAGE_COLOURS
from latencytrace.model.texts import units
from latencytrace.model.texts.escaped import escaped
from latencytrace.service.answers.documents import BreakdownDocument, RequestDocument
from latencytrace.service.answers.requests import (
    breakdown_document,
    request_document,
    span_document,
    spans_in_order,
)
from latencytrace.service.answers.sentences.gaps import gaps
from latencytrace.service.answers.traces.waterfall_rows import Rows, chosen, rows
from latencytrace.service.cohort import Cohort
from latencytrace.service.plain_answers import breakdown
from latencytrace.service.web.drawing.bars import in_order, segment_bar, stacked_bar
from latencytrace.service.web.drawing.waterfall import name_of, row_bar

MOST_ROUTES = 10
MOST_ROWS = 200
MOST_GAPS = 3
TEXT_WIDTH = 110  # cells of a picture as text
NOTHING = "No request: nothing that is traced was called."


@dataclass(frozen=True, slots=True, kw_only=True)
class _Route:
    """A route of the cell, and the breakdown of its requests."""

    title: str
    found: BreakdownDocument


class TracedCell:
    """Requests of a cell, and where their time went.

    Args:
        spans: Spans that ended while it ran, by trace id.
        left_out: How many there was no room for.
        own: The route of the request that is the cell itself, which is not shown where the cell
            makes requests of its own.
    """

    def __init__(
        self, spans: Mapping[str, Sequence[Span]], left_out: int = 0, own: str | None = None
    ) -> None:
        found = list(_requests(spans.values()))
        self._found = [one for one in found if one[0].route != own] or found
        self.left_out = left_out

    @property
    def requests(self) -> list[Request]:
        """Return its requests, the slowest first."""
        return [request for request, _ in self._found]

    @cached_property
    def breakdowns(self) -> list[_Route]:
        """Return one breakdown a route, longest total time first."""
        time_ns: dict[tuple[str, str], int] = {}
        for one in self.requests:
            at = (one.service, one.route)
            time_ns[at] = time_ns.get(at, 0) + one.duration_ns
        ranked = sorted(time_ns, key=lambda at: -time_ns[at])[:MOST_ROUTES]
        return [
            _Route(
                title=f"{route} · {service}",
                found=breakdown_document(
                    breakdown(Cohort(service=service, route=route), self.requests)
                ),
            )
            for service, route in ranked
        ]

    @cached_property
    def slowest(self) -> RequestDocument | None:
        """Return the slowest request with its spans; None: there is none."""
        if not self._found:
            return None
        request, tree = self._found[0]
        return {
            **request_document(request),
            "spans_kept": True,
            "error_type": None,
            "error_span_id": None,
            "profiles": [],
            "started_by": [],
            "shared_steps": [],
            "shared_steps_left_out": 0,
            "inter_token_ns": None,
            "stalls": None,
            "spans": [
                span_document(span, stage, request.start_ns)
                for span, stage in spans_in_order(tree)
            ],
            "network": {},
            "busy": {},
            "exclusive": {},
        }

    def __repr__(self) -> str:
        """As a terminal shows it."""
        console = Screen(width=TEXT_WIDTH, plain=True)
        with console.capture() as captured:
            for part in self._parts(console):
                console.print(fit(part))
        return "\n".join(line.rstrip() for line in captured.get().splitlines()).strip()

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        slowest = self.slowest
        every = Rows() if slowest is None else rows(slowest)
        return _TEMPLATES.get_template("cell.html").render(
            cell=self,
            nothing=NOTHING,
            slowest=slowest,
            path=None if slowest is None else _path(slowest),
            rows=[every[place] for place in chosen(every, MOST_ROWS)],
            row_count=len(every),
            gaps=[]
            if slowest is None
            else gaps(slowest["segments"], slowest["span_id"], MOST_GAPS),
            used=sorted(
                {
                    *(row["stage"] for one in self.breakdowns for row in one.found["stages"]),
                    *(Stage(stage) for stage in every.stages & set(Stage)),
                }
            ),
        )

    def _parts(self, console: Screen) -> Iterator[RenderableType]:
        if self.slowest is None:
            yield NOTHING
            return
        for one in self.breakdowns:
            yield from picture(one.title, one.found, console)
        yield from waterfall(self.slowest, console)


def _requests(traces: Iterable[Sequence[Span]]) -> Iterator[tuple[Request, Trace]]:
    """Requests and the trees of their spans, the slowest first, outermost ones alone."""
    found = [
        (request_of(tree, critical_path(tree), {}), tree)
        for spans in traces
        for tree in build_traces(spans, rootless=True)
        if tree.outermost
    ]
    yield from sorted(found, key=lambda item: -item[0].duration_ns)


def _path(request: RequestDocument) -> str:
    """The critical path over time."""
    segments = [
        (one["stage"], one["start_ns"], one["end_ns"], one["name"]) for one in request["segments"]
    ]
    return segment_bar(segments, request["duration_ns"])


_TEMPLATES = Environment(
    loader=PackageLoader(__package__),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(
    duration=units.duration,
    share=units.share,
    count=units.count,
    escaped=escaped,
    in_order=in_order,
)
_TEMPLATES.globals.update(
    colours=STAGE_COLOURS,
    stacked_bar=stacked_bar,
    row_bar=row_bar,
    name_of=name_of,
    shares=units.shares,
)
