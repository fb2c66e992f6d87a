"""The picture of a breakdown."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Console

from latencytrace.cli.commands.breakdown import MOST_ROUTES, joined, picture, pictures
from latencytrace.errors import QuestionError
from latencytrace.service.answers.documents import BreakdownDocument
from tests.support.builders.documents import MS, breakdown_document, no_requests
from tests.support.terminal import plain, printed_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class OneBreakdown:
    """A source with a single breakdown, of whatever route."""

    only: BreakdownDocument
    of_embed: BreakdownDocument | None = None

    def document(self, path: str, parameters: Mapping[str, str]) -> object:
        """See `reading.Source.document`."""
        if path == "/gpu":
            return {"gpus": [], "stages": []}
        if path == "/breakdown/routes":
            found = {"POST /chat": self.only, "POST /embed": self.of_embed or self.only}
            routes = [{"service": "rag", "route": name, **one} for name, one in found.items()]
            return {"routes": routes, "route_count": len(routes)}
        assert path == "/breakdown"
        return self.only

    def body(self, path: str, parameters: Mapping[str, str]) -> bytes:
        """Not asked for here."""
        raise AssertionError(path, parameters)


PLAIN = plain(96)


def drawn(document: BreakdownDocument, console: Console = PLAIN) -> str:
    return "\n".join(printed_lines(picture("POST /chat", document, console), console))


def test_the_picture_of_a_known_breakdown_is_exactly_this() -> None:
    document = breakdown_document(retrieve=10 * MS, decode=85 * MS, unattributed=5 * MS)

    assert (
        drawn(document)
        == """\
POST /chat
4 requests · p50 100 ms · p90 100 ms · p99 100 ms · 95.0 % explained by spans
first token p50 20.0 ms p99 20.0 ms · per token p50 3.00 ms p99 3.00 ms · 333 tokens/s a request

stage                                          mean   share      p50      p95      p99  requests
retrieve      ███▎                          10.0 ms  10.0 %  10.0 ms  10.0 ms  10.0 ms         4
decode        ████████████████████████████  85.0 ms  85.0 %  85.0 ms  85.0 ms  85.0 ms         4
unattributed  █▋                            5.00 ms   5.0 %  5.00 ms  5.00 ms  5.00 ms         4
The rows add up to the mean duration, 100 ms: nothing is hidden.
"""
    )


def test_first_tokens_that_no_caller_got_are_told_apart() -> None:
    document = breakdown_document(decode=100 * MS)
    document["first_tokens_of_model"] = 3

    assert "p99 20.0 ms (3 requests measured at the model) ·" in drawn(document)


def test_rows_that_do_not_add_up_are_said_so() -> None:
    document = breakdown_document(decode=100 * MS)
    document["stages"][0]["mean_ns"] -= 2 * MS

    assert "The rows add up to 98.0 ms, not to the mean duration of 100 ms" in drawn(document)


def notes(document: BreakdownDocument) -> list[str]:
    source = OneBreakdown(only=document)
    return [str(part) for part in joined(pictures(source, {"route": "POST /chat"}, PLAIN))[-2:]]


def shown(document: BreakdownDocument) -> str:
    source = OneBreakdown(only=document)
    return "\n".join(map(str, joined(pictures(source, {"route": "POST /chat"}, PLAIN))))


def test_who_sees_little_is_told_how_to_see_more() -> None:
    little = breakdown_document(decode=40 * MS, unattributed=60 * MS)
    much = breakdown_document(decode=60 * MS, unattributed=40 * MS)
    waited = breakdown_document(runtime=60 * MS, unattributed=40 * MS)

    assert "latencytrace.stage(" in shown(little)
    assert "latencytrace.batch()" in shown(little)
    assert "latencytrace trace slowest --route 'POST /chat' shows" in shown(little)
    assert "latencytrace.stage(" not in shown(much)
    assert "latencytrace.stage(" not in shown(waited)  # it would name nothing


def test_spans_that_cannot_be_placed_are_not_called_time_without_spans() -> None:
    placed = shown(breakdown_document(decode=5 * MS, other=95 * MS))
    both = shown(breakdown_document(decode=20 * MS, unattributed=40 * MS, other=40 * MS))

    assert "half is time of spans that cannot be placed in a stage (other). The rows" in placed
    assert "no span explains" not in placed
    assert "no span explains (unattributed) or time of spans that cannot be placed" in both


def test_routes_that_all_show_little_say_once_how_to_see_more() -> None:
    """And name the one of which most is missing."""
    document = breakdown_document(decode=40 * MS, unattributed=60 * MS)
    more = breakdown_document(decode=40 * MS, unattributed=90 * MS)
    source = OneBreakdown(only=document, of_embed=more)

    parts = [str(part) for part in joined(pictures(source, {}, PLAIN))]

    assert parts.count("POST /embed · rag") == 1
    (hint,) = [part for part in parts if "latencytrace.stage(" in part]
    assert "trace slowest --service rag --route 'POST /embed' shows" in hint


class ManyRoutes:
    """A source with more routes than are shown, and what it was asked.

    Args:
        fault: Why it cannot say anything of routes.
    """

    COUNT = MOST_ROUTES + 7

    def __init__(self, fault: str = "") -> None:
        self.routes = [f"POST /{number:02}" for number in reversed(range(self.COUNT))]
        self.asked: list[str] = []
        self._fault = fault

    def document(self, path: str, parameters: Mapping[str, str]) -> object:
        """See `reading.Source.document`."""
        self.asked.append(path)
        if path == "/gpu":
            return {"gpus": [], "stages": []}
        document = breakdown_document(decode=MS)
        if path == "/breakdown":
            return document
        if self._fault:
            raise QuestionError(self._fault)
        shown = self.routes[: int(parameters["limit"])]
        routes = [{"service": "rag", "route": route, **document} for route in shown]
        return {"routes": routes, "route_count": self.COUNT}

    def body(self, path: str, parameters: Mapping[str, str]) -> bytes:
        """Not asked for here."""
        raise AssertionError(path, parameters)


def headings(parts: list[str]) -> list[str]:
    """The routes that have a picture."""
    return [part.removesuffix(" · rag") for part in parts if part.endswith(" · rag")]


def test_the_busiest_routes_are_shown_first_and_the_number_of_others_is_said() -> None:
    source = ManyRoutes()

    parts = [str(part) for part in joined(pictures(source, {}, PLAIN))]

    assert headings(parts) == source.routes[:MOST_ROUTES]
    assert (
        "7 more routes took less time: --service or --route names one, --all shows all." in parts
    )


def test_all_routes_are_shown_where_they_are_asked_for_and_all_are_one_question() -> None:
    source = ManyRoutes()

    parts = [str(part) for part in joined(pictures(source, {}, PLAIN, every=True))]

    assert headings(parts) == source.routes
    assert not any("more routes" in part for part in parts)
    assert source.asked == ["/breakdown", "/breakdown/routes", "/gpu"]


def test_where_routes_cannot_be_told_apart_the_whole_is_shown_with_the_reason() -> None:
    source = ManyRoutes(fault="it cannot be asked for")

    parts = [str(part) for part in joined(pictures(source, {}, PLAIN))]

    assert "No routes: it cannot be asked for" in parts
    assert "all routes" in parts


def test_requests_that_never_overlapped_are_warned_about() -> None:
    document = breakdown_document(decode=MS)
    document["max_concurrency"] = 1

    assert "Never more than one request at a time" in notes(document)[-1]


def test_requests_that_queued_are_not_warned_about() -> None:
    document = breakdown_document(queue=MS, decode=MS)
    document["max_concurrency"] = 1

    assert not any("Never more" in note for note in notes(document))


def test_processes_that_load_cannot_be_sent_at_once() -> None:
    document = breakdown_document(load=MS)
    document["max_concurrency"] = 1

    shown = joined(pictures(OneBreakdown(only=document), {"route": "load"}, PLAIN))

    assert not any("Never more than one" in str(part) for part in shown)


def test_overlapping_requests_are_not_warned_about() -> None:
    assert "Never more" not in notes(breakdown_document(decode=MS))[-1]


def test_quantiles_from_histograms_are_said_to_be() -> None:
    document = breakdown_document(decode=MS)
    exact = notes(document)
    document["quantile_error_ratio"] = 0.0219

    assert "histograms: off by at most 2.2 %" in notes(document)[-1]
    assert not any("histograms" in note for note in exact)


def test_what_is_left_out_is_said() -> None:
    assert "Left out: 3 requests for health or metrics." in notes(breakdown_document(decode=MS))


def test_what_some_requests_lack_is_said() -> None:
    document = breakdown_document(decode=MS)
    document["reduced_requests"] = 7

    assert notes(document)[-1] == (
        "In less detail, to keep the agent's budget: 7 requests. "
        "LATENCYTRACE_OVERHEAD=0.05 allows more."
    )


def test_no_requests_are_an_answer() -> None:
    assert drawn(no_requests()) == "POST /chat\nNo request.\n"


def waiting() -> BreakdownDocument:
    """A cohort whose requests waited for threads, and for each other."""
    document = breakdown_document(decode=60 * MS, runtime=40 * MS)
    document["stages"][1]["parts"] = [
        {"name": "thread-pool wait", "mean_ns": 30 * MS, "share_ratio": 0.3, "requests": 3},
        {"name": "event-loop lag", "mean_ns": 10 * MS, "share_ratio": 0.1, "requests": 4},
    ]
    return document


def test_what_the_process_did_has_a_row_each_below_its_stage() -> None:
    lines = drawn(waiting()).splitlines()[1:]

    assert [line.split()[-1] for line in lines[6:8]] == ["3", "4"]
    assert lines[6].startswith("· thread-pool wait  █")
    assert "30.0 ms  30.0 %" in lines[6]
    assert "10.0 ms  10.0 %" in lines[7]
    assert "The rows add up to the mean duration, 100 ms" in lines[8]


def test_what_the_named_parts_of_a_stage_leave_is_others() -> None:
    document = waiting()
    document["stages"][1]["parts"][1]["mean_ns"] = 6 * MS

    lines = drawn(document).splitlines()[7:10]

    assert [line.split("  ")[0] for line in lines[:2]] == [
        "· thread-pool wait",
        "· event-loop lag",
    ]
    assert lines[2].startswith("· others  ")
    assert "4.00 ms   4.0 %" in lines[2]


def test_a_stage_of_one_part_prints_the_same_share_of_both() -> None:
    decode, runtime = waiting()["stages"]
    runtime["mean_ns"] = MS // 4  # 0.25 %, which rounds to 0.2 or, as the column adds up, 0.3
    runtime["parts"] = [
        {"name": "gc", "mean_ns": MS // 4, "share_ratio": 0.0025, "requests": 1},
    ]
    decode["mean_ns"] = 100 * MS - MS // 4
    document: BreakdownDocument = {**waiting(), "stages": [runtime, decode]}

    lines = drawn(document).splitlines()[5:7]

    assert ["0.3 %" in line for line in lines] == [True, True]


def test_an_older_service_that_knows_no_parts_is_read_all_the_same() -> None:
    document = waiting()
    for row in document["stages"]:
        row.pop("parts")  # type: ignore[misc] # an older service has none

    assert "runtime" in drawn(document)


def test_a_terminal_of_eighty_columns_is_wide_enough() -> None:
    document = breakdown_document(unattributed=123 * MS, decode=456 * MS)
    document["stages"][0]["parts"] = waiting()["stages"][1]["parts"]

    lines = drawn(document, plain(80)).splitlines()

    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)


def test_colours_appear_only_on_a_terminal() -> None:
    coloured = Console(width=100, force_terminal=True, color_system="truecolor")
    document = breakdown_document(decode=MS)

    assert "\x1b[" in drawn(document, coloured)
    assert "\x1b[" not in drawn(document)
