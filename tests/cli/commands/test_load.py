"""`latencytrace load` against a real server whose delays are known."""

import json
import operator
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from latencytrace.errors import LatencytraceError
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.load_server import FIRST_S, TOKENS, LoadServer, serving
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.ports import free_port
from tests.support.terminal import said
from tests.support.waiting import until

pytestmark = pytest.mark.long

MS = 1_000_000
FIRST_NS = 0.9 * FIRST_S * 1e9  # at least: uvloop's timers may be early


@pytest.fixture
def server() -> Iterator[LoadServer]:
    with serving() as answering:
        yield answering


def measured(*arguments: str | Path, code: int = 0) -> Any:
    """The one rate of a run's document."""
    document = load(*arguments, code=code)
    (rate,) = document["rates"]
    return rate


def load(*arguments: str | Path, code: int = 0) -> Any:
    ended = latencytrace("load", *arguments, "--json")
    assert ended.returncode == code, ended.stderr
    return json.loads(ended.stdout)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_goodput_is_what_met_all_limits(server: LoadServer) -> None:
    few = ("--rate", "20", "--requests", "10", "--warm-up", "0", "--no-trace")
    asked = (f"{server.url}/openai", "--json-body", '{"prompt": "hi"}', *few)

    slow = load(*asked, "--within", "100s", "--first-token-within", "1us")
    (all_good,) = load(*asked, "--within", "100s")["rates"]

    assert slow["limits"]["time_to_first_token_ns"] == 1000
    assert (slow["rates"][0]["good_ratio"], slow["rates"][0]["goodput_per_s"]) == (0, 0)
    assert all_good["good_ratio"] == 1
    assert all_good["goodput_per_s"] == all_good["offered_per_s"]


def test_the_rate_with_the_best_goodput_is_printed(server: LoadServer) -> None:
    ended = latencytrace(
        *("load", f"{server.url}/openai", "--json-body", '{"prompt": "hi"}', "--no-trace"),
        *("--rates", "20,40", "--requests", "8", "--warm-up", "0", "--within", "100s"),
    )

    assert ended.returncode == 0, ended.stderr
    assert "goodput" in ended.stdout
    assert "Goodput: at most " in ended.stdout
    assert "at 40/s, where 100.0 % of the requests met all limits." in ended.stdout


def test_the_tokens_of_an_openai_stream_are_counted_and_timed(server: LoadServer) -> None:
    rate = measured(
        *(f"{server.url}/openai", "--json-body", '{"prompt": "hi"}', "--no-trace"),
        *("--rate", "10", "--requests", "12", "--warm-up", "0"),
    )

    first_ns = min(told.first_token_ns for told in server.told)
    duration_ns = min(told.duration_ns for told in server.told)
    assert rate["time_to_first_token_ns"]["p50"] >= first_ns
    assert rate["duration_ns"]["p50"] >= duration_ns
    assert rate["time_per_output_token_ns"] is not None
    assert rate["inter_token_ns"] is not None
    assert rate["shapes"] == {"openai": 12}
    assert rate["output_tokens"] == 12 * TOKENS
    assert rate["tokens_reported_by"] == {"usage": 12}


def test_the_chunks_of_a_plain_stream_are_its_tokens(server: LoadServer) -> None:
    asked = ("--rate", "10", "--requests", "8", "--warm-up", "0", "--no-trace")

    rate = measured(f"{server.url}/chunks", *asked)

    first_ns = min(told.first_token_ns for told in server.told)
    assert rate["time_to_first_token_ns"]["p50"] >= first_ns
    assert rate["shapes"] == {"chunks": 8}
    assert rate["output_tokens"] == 8 * TOKENS


def test_an_answer_in_one_piece_has_no_first_token(server: LoadServer) -> None:
    rate = measured(
        f"{server.url}/whole", "--rate", "20", "--requests", "10", "--warm-up", "0", "--no-trace"
    )

    assert rate["time_to_first_token_ns"] is None
    assert rate["time_per_output_token_ns"] is None
    assert rate["output_tokens"] == 10 * 7


def test_what_waits_in_the_generator_counts_from_when_it_was_due(
    server: LoadServer, tmp_path: Path
) -> None:
    out = tmp_path / "requests.jsonl"

    rate = measured(
        *(f"{server.url}/slow", "--constant", "--rate", "20", "--requests", "10"),
        *("--warm-up", "0", "--max-in-flight", "1", "--no-trace", "--requests-out", out),
    )

    # One at a time, each due half a duration after the one before it:
    # |--0--|
    #    |··---1--|
    #       |····---2--|
    expected_ns = [FIRST_NS + index * (FIRST_NS - 50 * MS) for index in range(10)]
    durations_ns = [row["duration_ns"] for row in rows(out)]
    assert all(map(operator.ge, durations_ns, expected_ns))
    assert rate["in_flight_max"] == 1
    assert rate["generator_kept_up"] is False


def test_a_server_that_answers_none_until_all_are_sent_is_asked_at_the_same_rate(
    server: LoadServer,
) -> None:
    server.together = 40

    rate = measured(
        *(f"{server.url}/all_at_once", "--constant", "--rate", "40", "--requests", "40"),
        *("--warm-up", "0", "--no-trace"),
    )

    assert rate["in_flight_max"] == 40
    assert rate["succeeded"] == 40
    assert rate["offered_per_s"] == pytest.approx(40, rel=0.001)


def test_a_slow_start_stays_in_the_warm_up(server: LoadServer, tmp_path: Path) -> None:
    out = tmp_path / "requests.jsonl"

    rate = measured(
        *(f"{server.url}/slow_start", "--rate", "10", "--requests", "10", "--warm-up", "1.5"),
        *("--no-trace", "--requests-out", out),
    )

    warm_up, counted = (
        [row["duration_ns"] for row in rows(out) if row["warm_up"] is warms]
        for warms in (True, False)
    )
    assert rate["warm_up_requests"] == len(warm_up) == 15
    assert max(warm_up) >= 900 * MS
    assert rate["duration_ns"]["p50"] == pytest.approx(median(counted))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("overloaded", "http 503"),
        ("failing_stream", "error in the stream"),
        ("cut_off", "answer cut off"),
        ("silent", "timeout"),
    ],
)
def test_failures_are_counted_by_kind_and_none_succeeding_is_exit_code_1(
    server: LoadServer, path: str, kind: str
) -> None:
    rate = measured(
        *(f"{server.url}/{path}", "--rate", "20", "--requests", "5", "--warm-up", "0"),
        *("--timeout", "3" if path == "silent" else "100", "--no-trace"),
        code=1,
    )

    assert rate["errors"] == {kind: 5}
    assert rate["succeeded"] == 0
    assert rate["achieved_per_s"] is None


def test_a_timeout_counts_with_how_long_was_waited(server: LoadServer) -> None:
    rate = measured(
        *(f"{server.url}/silent", "--rate", "20", "--requests", "5", "--warm-up", "0"),
        *("--timeout", "0.3", "--no-trace"),
        code=1,
    )

    assert rate["duration_ns"]["p50"] >= 300 * MS


def test_nobody_listening_is_a_refused_connection() -> None:
    rate = measured(
        f"http://127.0.0.1:{free_port()}",
        "--rate",
        "20",
        "--requests",
        "3",
        "--warm-up",
        "0",
        "--no-trace",
        code=1,
    )

    assert rate["errors"] == {"connection refused": 3}
    assert rate["duration_ns"] is None


def test_every_request_is_traced_and_reported_as_a_client_span(
    server: LoadServer, tmp_path: Path
) -> None:
    out = tmp_path / "requests.jsonl"

    document = load(
        *(f"{server.url}/openai?key=secret", "--rate", "20", "--requests", "6"),
        *("--warm-up", "0", "--endpoint", server.url, "--requests-out", out),
    )

    written = rows(out)
    assert {f"00-{row['trace_id']}-{row['span_id']}-01" for row in written} == set(
        server.traceparents
    )
    spans = {span.trace_id.hex(): span for span in server.spans}
    assert {trace: span.span_id.hex() for trace, span in spans.items()} == {
        row["trace_id"]: row["span_id"] for row in written
    }
    assert {span.kind for span in server.spans} == {3}
    assert {span.name for span in server.spans} == {"GET /openai"}
    assert "secret" not in str(server.spans)
    assert server.services == {"latencytrace-load"}
    assert document["spans"]["sent"] == 6
    for row in written:
        span = spans[row["trace_id"]]
        sent_ns = row["duration_ns"] - row["late_ns"]
        assert span.end_time_unix_nano - span.start_time_unix_nano == sent_ns


def test_without_tracing_requests_carry_no_trace_context(server: LoadServer) -> None:
    document = load(
        f"{server.url}/whole", "--rate", "20", "--requests", "3", "--warm-up", "0", "--no-trace"
    )

    assert set(server.traceparents) == {None}
    assert document["spans"] is None


def test_spans_that_nobody_takes_are_a_warning(server: LoadServer) -> None:
    document = load(
        *(f"{server.url}/whole", "--rate", "20", "--requests", "3", "--warm-up", "0"),
        *("--endpoint", NOWHERE),
    )

    assert document["spans"]["lost"] == 3
    assert "3 spans of 3 could not be sent" in document["warnings"][-1]


def test_bodies_are_sent_in_turn_with_the_headers_named(
    server: LoadServer, tmp_path: Path
) -> None:
    bodies = tmp_path / "bodies.jsonl"
    bodies.write_text('{"n": 1}\n\n{"n": 2}\n')

    load(
        *(f"{server.url}/whole", "--bodies", bodies, "-H", "Authorization: Bearer x"),
        *("--constant", "--rate", "10", "--requests", "4", "--warm-up", "0", "--no-trace"),
    )

    assert server.bodies == [b'{"n": 1}', b'{"n": 2}'] * 2
    assert {headers["authorization"] for headers in server.headers} == {"Bearer x"}
    assert {headers["content-type"] for headers in server.headers} == {"application/json"}


def test_a_sweep_shows_latency_against_load_and_the_knee(server: LoadServer) -> None:
    ended = latencytrace(
        *("load", f"{server.url}/slow", "--rates", "5,40", "--seconds", "0.6"),
        *("--constant", "--warm-up", "0", "--max-in-flight", "1", "--no-trace"),
    )

    assert ended.returncode == 0, ended.stderr
    assert "e2e p95" in ended.stdout
    assert "TTFT" not in ended.stdout
    # It serves ten a second at most; a busy machine may not even serve five.
    assert re.search("at (5|40)/s it achieved", ended.stdout)
    assert "--max-in-flight was reached" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "1"], "needs a bound"),
        (["--seconds", "1"], "how many requests a second"),
        (["--rate", "1", "--rates", "2", "--seconds", "1"], "how many requests a second"),
        (["--rate", "1", "--seconds", "1", "--requests-out", "/no/such/folder/file"], "written"),
    ],
)
def test_it_does_not_start_without_knowing_what_to_do(arguments: list[str], message: str) -> None:
    with pytest.raises(LatencytraceError, match=message):
        said("load", NOWHERE, *arguments)


def test_ctrl_c_shows_what_was_measured_by_then(server: LoadServer) -> None:
    with subprocess.Popen(
        [
            *(*COMMAND, "load", f"{server.url}/whole", "--rate", "20", "--seconds", "100"),
            *("--warm-up", "0", "--max-in-flight", "1", "--no-trace", "--json"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        # One at a time: the answers to those before the last have been read.
        until(lambda: len(server.bodies) > 4 or process.poll() is not None)

        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=100)

    assert process.returncode == 130
    assert json.loads(output)["rates"][0]["succeeded"] >= 4
