"""The picture of one request."""

import pytest

from latencytrace.cli.commands.trace import ledger, picture
from latencytrace.model import FirstTokenOf, ShareBasis, Stage
from latencytrace.model.texts.units import duration
from latencytrace.service.answers.documents import RequestDocument, RequestStepDocument
from latencytrace.service.answers.traces.waterfall_rows import rows
from tests.support.builders.documents import MS, request_document, span
from tests.support.terminal import plain, printed_lines

PLAIN = plain(87)


def drawn(request: RequestDocument) -> str:
    return "\n".join(printed_lines(picture(request, PLAIN), PLAIN))


def test_the_waterfall_of_a_known_request_is_exactly_this() -> None:
    lines = drawn(request_document()).splitlines()

    assert lines[5:10] == [
        "span                   stage         on path  duration  0 ───────── 50.0 ms ──── 100 ms",
        "POST /chat             unattributed  10.0 ms    100 ms  ██░░░░░░░░░░░░░░░░░░░░░░░░░░░██",
        "├─ encode              embed         20.0 ms   20.0 ms   ███████",
        "└─ generate            decode        60.0 ms   70.0 ms         ██████████░░█████████░░",
        "      · detokenize x2  detokenize    10.0 ms   10.0 ms                   ██        ███",
    ]


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "bar"),
    [
        pytest.param(-1_000, -900, "░", id="long before"),
        pytest.param(-1_000, 50, "░" * 16, id="from long before into it"),
        pytest.param(900, 1_000, " " * 30 + "░", id="long after"),
    ],
)
def test_what_lies_outside_of_its_request_is_drawn_at_the_edge(
    start_ms: int, end_ms: int, bar: str
) -> None:
    request = request_document()
    request["spans"].append(span("e" * 16, "a" * 16, "early", "cache", start_ms, end_ms))

    lines = drawn(request).splitlines()
    (line,) = [line for line in lines if "early" in line]

    assert line[lines[5].index("0 ─") :] == bar


def test_when_it_started_is_told_with_its_zone() -> None:
    assert "2025-11-21 01:53:20 UTC · took 100 ms" in drawn(request_document())


def test_every_segment_of_the_critical_path_is_on_one_row() -> None:
    request = request_document()

    assert sum(row.path_ns for row in rows(request)) == request["duration_ns"]


def test_the_ledger_shows_every_nanosecond_and_that_they_add_up() -> None:
    text = drawn(request_document())

    assert "60,000,000 ns" in text
    assert "100,000,000 ns" in text
    assert "The sum is the request's duration, exactly." in text


def test_where_the_time_lies_that_no_span_explains_is_said() -> None:
    document = request_document()
    document["segments"][0]["name"] = "POST /chat"
    for segment in document["segments"][3:6]:
        segment["stage"] = Stage.UNATTRIBUTED
    text = " ".join(drawn(document).split())

    assert (
        "no span explains: 30.0 ms in decode, between detokenize and detokenize; 5.00 ms" in text
    )
    assert "5.00 ms in POST /chat" in text

    for segment in document["segments"][3:6]:
        segment["span_id"] = document["span_id"]
    assert "no span explains: 30.0 ms between detokenize and detokenize;" in drawn(document)

    for segment in document["segments"]:
        segment["stage"] = Stage.DECODE
    assert "no span explains" not in drawn(document)


def test_time_that_no_span_explains_in_one_place_is_said_once() -> None:
    document = request_document()
    ends = document["segments"][0], document["segments"][-1]
    for segment in ends:
        segment["name"], segment["stage"] = "POST /chat", Stage.UNATTRIBUTED
    whole = duration(sum(one["end_ns"] - one["start_ns"] for one in ends))

    (said,) = [line for line in drawn(document).splitlines() if "no span explains" in line]
    assert said.count("in POST /chat") == said.count(whole) == 1


def test_a_ledger_that_does_not_balance_is_said_so() -> None:
    request = request_document()
    request["ledger"][Stage.DECODE] -= 1

    assert "this ledger does not balance" in str(ledger(request, 100)[-1])


def test_the_models_own_first_token_stands_beside_the_callers() -> None:
    request = request_document()
    request["model_time_to_first_token_ns"] = 25 * MS

    assert "first token 30.0 ms (the model's 25.0 ms) ·" in drawn(request)


def test_a_first_token_that_the_caller_never_saw_says_so() -> None:
    request = request_document()
    request["time_to_first_token_of"] = FirstTokenOf.MODEL
    request["model_time_to_first_token_ns"] = 30 * MS

    assert "first token 30.0 ms (the model's, not the caller's)" in " ".join(
        drawn(request).split()
    )


def test_gaps_between_tokens_and_stalls_are_told() -> None:
    request = request_document()
    request["inter_token_ns"] = {"p50": 10 * MS, "p99": 70 * MS, "max": 80 * MS}
    request["stalls"] = [{"start_ns": 30 * MS, "duration_ns": 80 * MS, "label": "respond"}]

    text = drawn(request)

    assert "between tokens: p50 10.0 ms, p99 70.0 ms, longest 80.0 ms" in text
    assert "1 stall:\n  80.0 ms at 30.0 ms, respond: the caller took no more" in text


def test_of_many_stalls_the_first_are_listed_and_the_others_counted() -> None:
    request = request_document()
    request["inter_token_ns"] = {"p50": MS, "p99": MS, "max": 80 * MS}
    request["stalls"] = [
        {"start_ns": number * MS, "duration_ns": 80 * MS, "label": "tool"} for number in range(13)
    ]

    text = drawn(request)

    assert "13 stalls:" in text
    assert text.count(", tool") == 10
    assert "and 3 more" in text


def test_without_token_times_nothing_is_said_of_gaps() -> None:
    assert "between tokens" not in drawn(request_document())


def test_what_was_mended_is_listed() -> None:
    text = drawn(request_document())

    assert "1 repair of what arrived:" in text
    assert "clipped, span cc: ended 2 ms after its parent" in text


def test_without_its_spans_a_request_shows_its_critical_path() -> None:
    request = request_document()
    request["spans"] = []
    request["spans_kept"] = False

    assert "Its spans were not kept" in drawn(request)
    assert sum(row.path_ns for row in rows(request)) == 100 * MS


def test_spans_without_a_known_parent_are_drawn_too() -> None:
    request = request_document()
    request["spans"] = [*(request["spans"]), span("dd", "lost", "rerank", "rerank", 10, 20)]

    assert [row.name for row in rows(request)][-1] == "rerank"


def test_the_tree_is_drawn_in_order_of_time() -> None:
    names = [row.name for row in rows(request_document())]

    assert names == ["POST /chat", "encode", "generate", "detokenize x2"]


STEP = RequestStepDocument(
    trace_id="5f" * 16,
    span_id="5e" * 8,
    name="prefill",
    service="rag",
    instance=None,
    stage=Stage.PREFILL,
    start="1763690000000000000",
    wall_ns=52 * MS,
    size=3,
    tokens=32_500,
    basis=ShareBasis.TOKENS,
    held_up_ns=50 * MS,
    share_ns=2 * MS,
    largest_others=[
        {
            "trace_id": "1f3c9a" + "0" * 26,
            "span_id": "aa",
            "service": "rag",
            "route": "POST /chat",
            "tokens": 32_000,
            "wall_ns": 52 * MS,
            "share_ns": 49 * MS,
        },
        {
            "trace_id": "ab" * 16,
            "span_id": "bb",
            "service": None,
            "route": None,
            "tokens": None,
            "wall_ns": None,
            "share_ns": MS,
        },
    ],
)


def test_who_slowed_a_request_is_named_with_its_share() -> None:
    request = request_document()
    request["shared_steps"] = [STEP]
    request["shared_steps_left_out"] = 2

    lines = drawn(request).splitlines()
    at = lines.index("served together with others")

    assert lines[at + 1 : at + 6] == [
        "prefill held it up 50.0 ms: it took 52.0 ms for 3 requests, 2.00 ms of it this one's",
        "5e5e5e5e5e5e5e5e",
        "  49.0 ms  POST /chat with 32,000 tokens 1f3c9a000000",
        "  1.00 ms  a request that is not kept abababababab",
        "Shares of a step are an estimate in proportion to tokens; no ledger holds them. 2 more",
    ]


def test_a_step_that_is_not_kept_says_so() -> None:
    request = request_document()
    gone: RequestStepDocument = {**STEP, "size": None, "share_ns": None, "basis": None}
    request["shared_steps"] = [{**gone, "largest_others": []}]

    assert "it took 52.0 ms, not kept" in drawn(request)


def test_who_shared_a_step_alike_is_named_without_a_ranking() -> None:
    request = request_document()
    request["shared_steps"] = [
        {**STEP, "basis": ShareBasis.EQUAL, "size": 8, "share_ns": 13 * MS // 2}
    ]

    lines = drawn(request).splitlines()
    at = lines.index("served together with others")

    assert lines[at + 1].endswith("it took 52.0 ms for 8 requests, a part each: 6.50 ms")
    assert lines[at + 3 : at + 5] == [
        "     with  POST /chat 1f3c9a000000",
        "     with  a request that is not kept abababababab and 5 more",
    ]


def test_a_step_that_a_request_had_to_itself_is_not_named() -> None:
    request = request_document()
    request["shared_steps"] = [{**STEP, "size": 1}]

    assert "served together" not in drawn(request)
