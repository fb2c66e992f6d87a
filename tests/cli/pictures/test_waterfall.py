"""Waterfalls of traces as they come: failed, sent again, odd, and in terminals of any width."""

from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from latencytrace.cli.commands.trace import picture
from latencytrace.cli.pictures.terminal import fit
from latencytrace.cli.pictures.waterfall import MOST_ROWS, waterfall
from latencytrace.model import Stage, semconv
from latencytrace.service.answers.documents import RequestDocument, SegmentDocument, SpanDocument
from latencytrace.service.answers.traces.waterfall_rows import MOST_LEVELS, chosen, rows
from tests.support.builders.documents import MS, request_document, segment, span
from tests.support.terminal import plain, printed_lines

WIDTHS = (40, 60, 80, 100, 120, 200)


def of_spans(*spans: SpanDocument, path: str = "aa") -> RequestDocument:
    """A request of 100 ms below its server span; one of them held it up."""
    whole = segment(path, "unattributed", 0, 100)
    return {
        **request_document(),
        "spans": [span("aa", None, "POST /chat", "unattributed", 0, 100), *spans],
        "segments": [whole],
        "ledger": {Stage.UNATTRIBUTED: 100 * MS},
    }


def lines_of(request: RequestDocument, width: int = 120) -> list[str]:
    """The lines of the waterfall."""
    return printed(waterfall, request, width)


def printed(drawing: object, request: RequestDocument, width: int) -> list[str]:
    console = plain(width)
    drawn = drawing(request, console)  # type: ignore[operator] # either picture
    return printed_lines(map(fit, drawn), console)


def line_of(request: RequestDocument, name: str, width: int = 120) -> str:
    (line,) = [line for line in lines_of(request, width) if name in line]
    return line


# What went wrong


def failing(error_type: str | None, attributes: dict[str, object] | None = None) -> SpanDocument:
    one = span("bb", "aa", "search", "retrieve", 10, 40)
    return {**one, "status": "error", "error_type": error_type, "attributes": attributes or {}}


def test_a_failed_span_has_the_type_of_its_exception_beside_its_name() -> None:
    line = line_of(of_spans(failing("qdrant_client.http.exceptions.ResponseTimeoutError")), "└─")

    assert line.startswith("└─ search ResponseTimeoutError  retrieve")


def test_the_head_line_names_the_whole_type_and_where_it_was_raised() -> None:
    request = of_spans(failing("qdrant.TimeoutError"))
    request["error_type"], request["error_span_id"] = "qdrant.TimeoutError", "bb"

    assert printed(picture, request, 120)[0].endswith(" · ok: qdrant.TimeoutError in search")


def test_an_older_service_tells_no_exceptions_and_is_read_all_the_same() -> None:
    request = of_spans(failing(None))
    for document in (request, *request["spans"]):
        document.pop("error_type")  # type: ignore[misc] # an older service has none
    request.pop("error_span_id")  # type: ignore[misc]

    assert printed(picture, request, 120)[0] == "POST /chat · rag · ok"
    assert line_of(request, "└─").startswith("└─ search error  retrieve")


@pytest.mark.parametrize(
    ("attributes", "stage", "shown"),
    [
        ({semconv.HTTP_RESPONSE_STATUS_CODE: 429}, "remote_model", "429"),
        ({semconv.HTTP_STATUS_CODE_OLD: "503"}, "network", "503"),
        (
            {semconv.HTTP_RESPONSE_STATUS_CODE: 200, semconv.HTTP_REQUEST_RESEND_COUNT: 2},
            "remote_model",
            "200 resend 2",
        ),
        ({semconv.HTTP_RESPONSE_STATUS_CODE: 200}, "retry", "200"),
    ],
)
def test_a_call_that_failed_or_was_sent_again_shows_its_status(
    attributes: dict[str, object], stage: str, shown: str
) -> None:
    one = span("bb", "aa", "POST", stage, 10, 40)

    line = line_of(of_spans({**one, "attributes": attributes}), "└─")

    assert line.startswith(f"└─ POST {shown}  {stage}")


@pytest.mark.parametrize("told", [200, True, "many", 1.5, None, "4" * 400, [429]])
def test_a_call_that_went_well_shows_no_status(told: object) -> None:
    one = span("bb", "aa", "POST", "network", 10, 40)

    line = line_of(
        of_spans({**one, "attributes": {semconv.HTTP_RESPONSE_STATUS_CODE: told}}), "└─"
    )

    assert line.split()[:3] == ["└─", "POST", "network"]


def test_the_status_is_not_said_twice() -> None:
    request = of_spans(failing("503", {semconv.HTTP_RESPONSE_STATUS_CODE: 503}))

    assert line_of(request, "└─").startswith("└─ search 503  retrieve")


def test_of_what_is_too_long_the_name_is_cut_first() -> None:
    one = {**failing("RateLimitError"), "name": "embed " * 20}

    line = line_of(of_spans(one), "└─", 80)  # type: ignore[arg-type] # the same keys

    assert line.startswith("└─ embed")
    assert "… RateLimitError  retrieve" in line


def test_a_name_shorter_than_its_column_s_title_cuts_no_number() -> None:
    request = of_spans()
    request["spans"][0]["name"] = "a"

    head, line = lines_of(request, 80)[:2]

    assert head.startswith("span  stage")
    assert "100 ms    100 ms" in line


# What held it up


def test_no_row_shows_a_whole_duration_as_what_its_stage_held_up() -> None:
    request = of_spans(span("bb", "aa", "generate", "decode", 0, 80))
    request["segments"] = [segment("bb", "decode", 0, 12), segment("aa", "unattributed", 12, 100)]

    assert "decode        12.0 ms   80.0 ms" in line_of(request, "generate")


def test_a_span_beside_the_critical_path_held_nothing_up() -> None:
    request = of_spans(span("bb", "aa", "prefetch", "retrieve", 0, 80))

    assert line_of(request, "prefetch").split()[2:5] == ["retrieve", "80.0", "ms"]


def runtime(start_ms: int, end_ms: int, name: str) -> SegmentDocument:
    return {**segment("aa", "runtime", start_ms, end_ms), "name": name}


def waited() -> RequestDocument:
    """A request that waited for a thread, then twice for the event loop."""
    request = of_spans()
    request["segments"] = [
        runtime(0, 30, "thread-pool wait"),
        runtime(30, 40, "event-loop lag"),
        segment("aa", "unattributed", 40, 50),
        runtime(50, 55, "event-loop lag"),
        segment("aa", "unattributed", 55, 100),
    ]
    request["ledger"] = {Stage.RUNTIME: 45 * MS, Stage.UNATTRIBUTED: 55 * MS}
    return request


def test_what_the_process_did_is_named_a_row_each() -> None:
    names = [(row.name, row.stage, row.path_ns // MS) for row in rows(waited())]

    assert names == [
        ("POST /chat", "unattributed", 55),
        ("thread-pool wait", "runtime", 30),
        ("event-loop lag x2", "runtime", 15),
    ]


def test_the_ledger_says_what_its_runtime_was() -> None:
    text = "\n".join(printed(picture, waited(), 120))

    assert "of the runtime: thread-pool wait 30.0 ms, event-loop lag 15.0 ms" in text


def test_the_ledger_says_what_the_users_own_stages_were() -> None:
    request = of_spans()
    request["segments"] = [
        {**segment("aa", "application", at, at + 1 + at % 7), "name": f"own {at % 7}"}
        for at in (0, 1, 3, 6, 10, 11, 12, 13)
    ]

    text = "\n".join(printed(picture, request, 120))

    assert (
        "of the application: own 6 14.0 ms, own 3 8.00 ms, own 5 6.00 ms, own 4 5.00 ms, "
        "own 1 2.00 ms, others 1.00 ms"
    ) in text


def test_a_stall_of_the_process_says_what_it_was() -> None:
    request = waited()
    request["inter_token_ns"] = {"p50": MS, "p99": MS, "max": 60 * MS}
    request["stalls"] = [{"start_ns": 29 * MS, "duration_ns": 60 * MS, "label": "runtime"}]

    assert "  60.0 ms at 29.0 ms, runtime: event-loop lag" in printed(picture, request, 120)


def test_segments_of_spans_that_were_not_kept_have_a_row_too() -> None:
    request = of_spans()
    request["segments"] = [segment("zz", "decode", 0, 60), segment("aa", "unattributed", 60, 100)]

    assert [(row.name, row.path_ns // MS) for row in rows(request)] == [
        ("POST /chat", 40),
        ("decode", 60),
    ]


# Odd traces


def chain(length: int) -> Iterator[SpanDocument]:
    for number in range(length):
        parent_id = f"{number - 1:x}c" if number else "aa"
        yield span(f"{number:x}c", parent_id, f"call {number}", "other", 0, 100)


def test_a_trace_of_thousands_of_spans_shows_those_that_held_it_up() -> None:
    many = [span(f"{n:x}b", "aa", f"get {n}", "cache", n % 100, n % 100 + 1) for n in range(5000)]
    request = of_spans(*many)
    slow = f"{4321:x}b"
    request["segments"] = [segment(slow, "cache", 21, 22), segment("aa", "unattributed", 22, 100)]

    lines = lines_of(request)

    assert any("get 4321" in line for line in lines)
    assert f"{MOST_ROWS} of 5,001 rows" in lines[-1]
    assert len(lines) < MOST_ROWS + 6


def test_rows_that_are_left_out_say_how_long_they_held_it_up() -> None:
    many = [span(f"{n:x}b", "aa", f"get {n}", "cache", 0, 100) for n in range(400)]
    request = of_spans(*many)
    request["segments"] = [
        {**segment(f"{n:x}b", "cache", 0, 0), "start_ns": n * MS // 4, "end_ns": (n + 1) * MS // 4}
        for n in range(400)
    ]

    assert "it waited 25.2 ms in all" in lines_of(request)[-1]


def test_the_spans_above_what_held_it_up_are_shown_with_it() -> None:
    many = [span(f"{n:x}b", "aa", "noise", "cache", 0, 100) for n in range(400)]
    held = [span("f0", "aa", "outer", "other", 0, 2), span("f1", "f0", "inner", "other", 0, 1)]

    every = rows(of_spans(*many, *held, path="f1"))
    names = [every[place].name for place in chosen(every, 10)]

    assert {"POST /chat", "outer", "inner"} <= set(names)
    assert len(names) == 10


def test_a_deep_tree_says_how_deep_it_is_and_takes_no_more_room() -> None:
    every = list(rows(of_spans(*chain(3000))))
    lines = lines_of(of_spans(*chain(200)), 100)

    assert max(len(row.tree) for row in every) <= 3 * MOST_LEVELS
    assert max(map(cell_len, lines)) <= 100
    assert any(line.startswith("195… ") and "call 199" in line for line in lines)


def test_deeper_than_its_rows_are_those_that_fit_are_shown() -> None:
    every = rows(of_spans(*chain(3000), path=f"{2999:x}c"))

    shown = chosen(every, MOST_ROWS)

    assert len(shown) == MOST_ROWS
    assert len(every) - 1 in shown


def test_a_request_that_took_no_time_is_drawn() -> None:
    request = of_spans(span("bb", "aa", "search", "retrieve", 0, 0))
    request["duration_ns"], request["segments"] = 0, []

    assert line_of(request, "search").split()[2:4] == ["retrieve", "0"]


def test_a_span_that_began_when_all_was_over_is_drawn_at_the_end() -> None:
    assert line_of(of_spans(span("bb", "aa", "log", "other", 150, 300)), "log").endswith(" ░")


def test_a_circle_of_parents_ends() -> None:
    request = of_spans(
        span("bb", "cc", "one", "other", 0, 1), span("cc", "bb", "two", "other", 0, 1)
    )

    assert [row.name for row in rows(request)] == ["POST /chat"]


def test_a_narrow_terminal_has_no_bars_and_a_very_narrow_one_no_durations() -> None:
    headings = [lines_of(request_document(), width)[0].split() for width in (80, 56, 40)]

    assert headings[0][:5] == ["span", "stage", "on", "path", "duration"]
    assert "───" in " ".join(headings[0])
    assert headings[1] == ["span", "stage", "on", "path", "duration"]
    assert headings[2] == ["span", "stage", "on", "path"]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_name_of_a_usual_request_is_whole(width: int) -> None:
    text = "\n".join(lines_of(request_document(), width))

    assert "POST /chat" in text
    assert "unattributed" in text
    assert "10.0 ms" in text


names = st.text(max_size=200) | st.sampled_from(
    ["\x1b[2J", "検索" * 60, "a\nb", "", "e\u0301" * 90]
)
stages = st.sampled_from([str(stage) for stage in Stage] + ["teleport_of_a_newer_service"])
statuses = st.sampled_from(["ok", "error"])
times = st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)).map(sorted)


@st.composite
def heaps(draw: st.DrawFn) -> RequestDocument:
    """Spans of any parents, times and names, and any partition of the request among them."""
    count = draw(st.integers(1, 12))
    whole_ns = draw(st.sampled_from([0, 1, 1000, 10**9, 7 * 10**10, 4 * 10**12]))
    ids = [f"{number:x}" for number in range(count)]
    spans = []
    for number in range(count):
        parent = draw(st.sampled_from([None, "lost", *ids[:number]]))
        one = span(ids[number], parent, draw(names), "other", 0, 0)
        start_ns, end_ns = draw(times)
        ran = {"start_ns": start_ns, "end_ns": end_ns, "stage": draw(stages)}
        failed = {"error_type": draw(st.none() | names), "status": draw(statuses)}
        spans.append({**one, **ran, **failed})
    cuts = sorted({0, whole_ns, *draw(st.lists(st.integers(0, whole_ns), max_size=8))})
    segments = [
        {
            "start_ns": start_ns,
            "end_ns": end_ns,
            "stage": draw(stages),
            "span_id": draw(st.sampled_from([*ids, "lost"])),
            "name": draw(names),
        }
        for start_ns, end_ns in pairwise(cuts)
    ]
    more = {"duration_ns": whole_ns, "spans": spans, "segments": segments}
    return cast(RequestDocument, {**request_document(), **more})


@given(heaps(), st.integers(40, 200))
def test_whatever_comes_is_drawn_within_the_terminal(request: RequestDocument, width: int) -> None:
    lines = lines_of(request, width)

    drawn = list(rows(request))
    assert max(cell_len(line) for line in lines) <= width
    assert sum(row.path_ns for row in drawn) == request["duration_ns"]
    assert len(drawn) >= len(request["spans"])
    assert lines[0].startswith("span")
    assert len(lines) == 1 + len(drawn) + (
        2 if "█ the request waited" in lines[-1] else 0
    )  # a line each


@given(heaps(), st.integers(1, 12))
def test_of_too_many_rows_as_many_as_fit_are_shown_in_order(
    request: RequestDocument, most: int
) -> None:
    every = rows(request)

    shown = list(chosen(every, most))

    assert shown == sorted(set(shown))
    assert len(shown) == min(most, len(every))
