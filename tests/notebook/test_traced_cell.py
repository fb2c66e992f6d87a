"""The requests of a cell, as a notebook shows them."""

from collections.abc import Sequence
from dataclasses import replace

from latencytrace.model import Span, Stage, semconv
from latencytrace.notebook.traced_cell import MOST_ROUTES, MOST_ROWS, NOTHING, TracedCell
from tests.support.builders.spans.otlp_messages import one_span

MS = 1_000_000


def request(number: int, name: str, length_ms: int) -> Span:
    """A request that nothing is known of but its length."""
    span = one_span()
    return replace(
        span,
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        parent_id=None,
        name=name,
        end_ns=span.start_ns + length_ms * MS,
        attributes={},
    )


def part(of: Span, number: int, stage: Stage, start_ms: int, end_ms: int) -> Span:
    """A stage of it."""
    return replace(
        of,
        span_id=f"{1000 + number:016x}",
        parent_id=of.span_id,
        name=f"{stage} {number}",
        start_ns=of.start_ns + start_ms * MS,
        end_ns=of.start_ns + end_ms * MS,
        attributes={semconv.STAGE: stage.value},
    )


def shown(*traces: Sequence[Span], own: str | None = None) -> TracedCell:
    return TracedCell({spans[0].trace_id: spans for spans in traces}, own=own)


def test_a_request_is_shown_with_its_stages_and_its_waterfall() -> None:
    root = request(1, "nightly", 100)
    cell = shown([root, part(root, 1, Stage.EMBED, 0, 60), part(root, 2, Stage.RETRIEVE, 60, 90)])
    text, html = repr(cell), cell._repr_html_()

    assert [one.ledger for one in cell.requests] == [
        {Stage.EMBED: 60 * MS, Stage.RETRIEVE: 30 * MS, Stage.UNATTRIBUTED: 10 * MS}
    ]
    for wanted in ("nightly", "embed 1", "retrieve 2", "60.0 ms", "90.0 % explained by spans"):
        assert wanted in text
        assert wanted in html
    assert "\x1b" not in text
    assert html.count("<svg") == 3 + 1 + 3 + 3  # stages, the critical path, its names, rows


def test_nothing_is_said_to_be_nothing() -> None:
    assert repr(shown()) == NOTHING
    assert NOTHING in shown()._repr_html_()


def test_names_do_not_act() -> None:
    html = shown([request(1, "<script>alert(1)</script>\u202e\x1b[31m", 5)])._repr_html_()

    assert "<script" not in html
    assert "\u202e" not in html
    assert "\x1b" not in html


def test_the_cells_own_request_is_left_out_where_it_makes_others() -> None:
    own, other = request(1, "cell", 100), request(2, "question", 10)

    assert [one.route for one in shown([own], [other], own="cell").requests] == ["question"]
    assert [one.route for one in shown([own], own="cell").requests] == ["cell"]


def test_the_slowest_request_is_drawn() -> None:
    cell = shown([request(1, "quick", 5)], [request(2, "slow", 50)])

    assert cell.slowest is not None
    assert cell.slowest["route"] == "slow"


def test_of_very_many_routes_and_rows_the_largest_are_shown() -> None:
    root = request(1, "wide", 1000)
    parts = [part(root, place, Stage.EMBED, place, place + 1) for place in range(MOST_ROWS + 50)]
    others = [[request(2 + place, f"route {place}", 1)] for place in range(MOST_ROUTES + 5)]
    cell = shown([root, *parts], *others)
    html = cell._repr_html_()

    assert len(cell.breakdowns) == MOST_ROUTES
    assert cell.breakdowns[0].title.startswith("wide")
    assert f"{MOST_ROWS} of {MOST_ROWS + 51} rows" in html


def test_what_did_not_fit_is_said() -> None:
    spans = [request(1, "nightly", 5)]

    assert "3 more did not fit" in TracedCell({spans[0].trace_id: spans}, 3)._repr_html_()
