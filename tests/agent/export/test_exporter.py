"""Sending against a real receiver: absent, slow, refusing, closing, and after a fork."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from latencytrace.agent.export.batches import BATCH_SPANS
from latencytrace.agent.export.exporter import Exporter
from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.otlp_traces import OtlpEncoder
from latencytrace.agent.export.queue import SpanQueue
from latencytrace.agent.guard import OnFault, raise_fault
from latencytrace.agent.spans.provider import RecordingProvider
from latencytrace.errors import SettingsError
from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import python
from tests.support.servers.ports import free_port
from tests.support.servers.recording import RecordingServer, Response
from tests.support.waiting import PATIENCE_S, until

INTERVAL_S = 0.01


class Program:
    """Makes spans and hands them to an exporter."""

    def __init__(
        self,
        url: str,
        queue: SpanQueue,
        *,
        timeout_s: float,
        on_fault: OnFault,
        after_round: Callable[[], None],
    ) -> None:
        self.exporter = Exporter(
            OtlpEncoder({"service.name": "program"}),
            HttpSender(f"{url}/v1/traces", {"x-key": "value"}, timeout_s),
            queue=queue,
            interval_s=INTERVAL_S,
            on_fault=on_fault,
            after_round=after_round,
        )
        self._provider = RecordingProvider()
        self._provider.configure(queue.on_end)
        self._tracer = self._provider.get_tracer("scope")

    def make(self, count: int, name: str = "name") -> None:
        """End so many spans."""
        for _ in range(count):
            self._tracer.start_span(name).end()


@contextmanager
def sending(
    url: str,
    *,
    queue_spans: int = 10_000,
    queue_bytes: int = 1 << 30,
    timeout_s: float = PATIENCE_S,
    on_fault: OnFault = raise_fault,
    after_round: Callable[[], None] = lambda: None,
) -> Iterator[Program]:
    queue = SpanQueue(queue_spans, queue_bytes)
    program = Program(url, queue, timeout_s=timeout_s, on_fault=on_fault, after_round=after_round)
    try:
        yield program
    finally:
        program.exporter.stop(1.0)


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "latencytrace"]


# --- a receiver that is there


def test_spans_are_sent_by_themselves_a_moment_after_they_end(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        program.make(3)
        until(lambda: len(receiver.spans) == 3)

    assert program.exporter.counts.sent == 3


def test_a_flush_sends_all_that_has_ended(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        program.make(2 * BATCH_SPANS + 7)

        assert program.exporter.flush(PATIENCE_S)

        assert len(receiver.spans) == 2 * BATCH_SPANS + 7
    assert len({span.span_id for span in receiver.spans}) == 2 * BATCH_SPANS + 7


def test_a_flush_of_nothing_is_quick_and_posts_nothing(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        assert program.exporter.flush(PATIENCE_S)

    assert receiver.posts == []


def test_a_tight_loop_loses_nothing_up_to_the_bound(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        program.make(9_000)
        assert program.exporter.flush(PATIENCE_S)

        counts = program.exporter.counts
        assert (counts.sent, counts.dropped, counts.in_flight) == (9_000, 0, 0)
    assert len(receiver.spans) == 9_000


def test_stopping_sends_what_waits_and_ends_the_thread(receiver: Receiver) -> None:
    before = threading.active_count()
    with sending(receiver.endpoint) as program:
        program.make(5)
        assert program.exporter.stop(PATIENCE_S)

    assert len(receiver.spans) == 5
    assert "latencytrace-export" not in [thread.name for thread in threading.enumerate()]
    assert threading.active_count() <= before + 1  # the receiver's own


def test_what_ends_while_it_stops_is_sent(receiver: Receiver) -> None:
    made: list[Program] = []

    def after_round() -> None:
        if made:
            until(lambda: made[0].exporter.is_hurried)
            made.pop().make(1, "late")

    with sending(receiver.endpoint, after_round=after_round) as program:
        made.append(program)
        program.make(1)
        program.exporter.stop(PATIENCE_S)

        assert program.exporter.queued == 0
    assert [span.name for span in receiver.spans] == ["name", "late"]


def test_after_stopping_a_flush_is_quick_and_says_what_is_left(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        program.exporter.stop(PATIENCE_S)
    nothing_left = program.exporter.flush(PATIENCE_S)
    program.make(1)

    assert nothing_left
    assert not program.exporter.flush(PATIENCE_S)


def test_a_span_of_long_ago_is_sent_like_any_other(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        tracer = program._provider.get_tracer("scope")
        tracer.start_span("replayed", start_time=1).end(2)
        assert program.exporter.flush(PATIENCE_S)

    assert [(span.start_ns, span.end_ns) for span in receiver.spans] == [(1, 2)]


def test_the_configured_headers_are_sent(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        program.make(1)
        program.exporter.flush(PATIENCE_S)

    (headers,) = receiver.post_headers
    assert (headers["x-key"], headers["content-type"]) == ("value", "application/x-protobuf")


def test_one_connection_serves_all_posts(receiver: Receiver) -> None:
    with sending(receiver.endpoint) as program:
        for _ in range(5):
            program.make(1)
            program.exporter.flush(PATIENCE_S)

    assert (len(receiver.posts), receiver.connections) == (5, 1)


def test_a_connection_that_the_receiver_closed_is_opened_anew(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.close_each = True
    with sending(receiver.endpoint) as program:
        for _ in range(3):
            program.make(1)
            assert program.exporter.flush(PATIENCE_S)

    assert (len(receiver.spans), receiver.connections) == (3, 3)
    assert warnings_in(caplog) == []


# --- a receiver that is not there


def test_an_absent_receiver_is_one_clear_warning_and_spans_wait_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    with sending(f"http://127.0.0.1:{port}") as program:
        program.make(3)
        until(lambda: len(warnings_in(caplog)) == 1)
        assert not program.exporter.flush(PATIENCE_S)
        program.make(4)
        with Receiver(port) as receiver:
            until(lambda: len(receiver.spans) == 7)
            until(lambda: len(warnings_in(caplog)) == 2)

    absent, back = warnings_in(caplog)
    assert f"http://127.0.0.1:{port}/v1/traces" in absent
    assert "`latencytrace serve`" in absent
    assert "answers again" in back
    assert program.exporter.counts.dropped == 0
    assert program.exporter.counts.last_error is None


def test_beyond_the_bound_spans_are_dropped_and_counted() -> None:
    with sending(f"http://127.0.0.1:{free_port()}", queue_spans=100) as program:
        program.make(1)
        program.exporter.flush(PATIENCE_S)
        program.make(500)

        counts = program.exporter.counts
        waiting = program.exporter.queued + counts.in_flight
        assert counts.dropped == 501 - waiting
        assert 100 <= waiting <= 101


def test_spans_that_waited_are_sent_in_the_order_in_which_they_ended() -> None:
    port = free_port()
    with sending(f"http://127.0.0.1:{port}") as program:
        program.make(1, "first")
        program.exporter.flush(PATIENCE_S)
        program.make(1, "second")
        with Receiver(port) as receiver:
            until(lambda: len(receiver.spans) == 2)

    assert [span.name for span in receiver.spans] == ["first", "second"]


# --- a receiver that is busy, broken or slow


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_receiver_that_is_busy_gets_the_same_spans_again(
    receiver: Receiver, status: int
) -> None:
    receiver.answers.append((status, {}))
    with sending(receiver.endpoint) as program:
        program.make(3)
        until(lambda: len(receiver.spans) == 3)
        until(lambda: program.exporter.counts.sent == 3)

    assert (receiver.refused, program.exporter.counts.dropped) == (1, 0)


def test_a_receiver_that_names_a_time_is_not_asked_before(receiver: Receiver) -> None:
    receiver.answers.append((429, {"Retry-After": "1"}))
    with sending(receiver.endpoint) as program:
        began = time.monotonic()  # before it is refused: who looks on may see that late
        program.make(1)
        until(lambda: len(receiver.spans) == 1)

    assert receiver.refused == 1
    assert time.monotonic() - began >= 1


@pytest.mark.parametrize("after", ["Sun, 06 Nov 1994 08:49:37 GMT", "soon", "-1", "0"])
def test_a_time_that_cannot_be_read_is_our_own_back_off(receiver: Receiver, after: str) -> None:
    receiver.answers.append((503, {"Retry-After": after}))
    with sending(receiver.endpoint) as program:
        program.make(1)
        until(lambda: len(receiver.spans) == 1)

    assert receiver.refused == 1


def test_a_flush_does_not_wait_for_a_busy_receiver_and_loses_nothing(receiver: Receiver) -> None:
    receiver.answers.extend([(503, {"Retry-After": "3600"})] * 3)
    with sending(receiver.endpoint) as program:
        program.make(2)
        until(lambda: receiver.refused == 1)

        sent = program.exporter.flush(3600)

        assert not sent
        receiver.answers.clear()
        assert program.exporter.flush(PATIENCE_S)
    assert len(receiver.spans) == 2


def test_what_a_receiver_refuses_is_dropped_counted_and_logged_once(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers.extend([(400, {})] * 3)
    with sending(receiver.endpoint) as program:
        for _ in range(3):
            program.make(2)
            assert not program.exporter.flush(PATIENCE_S)
        program.make(1)
        assert program.exporter.flush(PATIENCE_S)

    assert (program.exporter.counts.dropped, program.exporter.counts.sent) == (6, 1)
    (warning,) = warnings_in(caplog)
    assert "400" in warning


def test_what_a_receiver_leaves_out_of_a_post_is_counted_as_dropped() -> None:
    body = b"\x0a\x02\x08\x03"  # a partial success: three of them
    answer = Response(body=body, headers={"Content-Type": "application/x-protobuf"})
    with RecordingServer(lambda _: answer) as server, sending(server.url) as program:
        program.make(5)

        assert not program.exporter.flush(PATIENCE_S)  # not all of them were taken

        counts = program.exporter.counts
    assert (counts.sent, counts.dropped, counts.in_flight) == (2, 3, 0)


def test_a_receiver_that_hangs_never_blocks_the_program(receiver: Receiver) -> None:
    receiver.release.clear()
    with sending(receiver.endpoint, timeout_s=3600) as program:
        program.make(1)

        program.make(1_000)
        flushed = program.exporter.flush(0.1)

        assert not flushed
        receiver.release.set()
        assert program.exporter.flush(PATIENCE_S)
    assert len(receiver.spans) == 1_001


def test_a_receiver_that_hangs_for_too_long_is_given_up_and_tried_again(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.release.clear()
    with sending(receiver.endpoint, timeout_s=0.5) as program:
        program.make(1)
        until(lambda: len(warnings_in(caplog)) == 1)
        receiver.release.set()
        until(lambda: program.exporter.counts.sent == 1)

    assert "timed out" in warnings_in(caplog)[0]


def test_stopping_does_not_wait_for_a_receiver_that_hangs(receiver: Receiver) -> None:
    receiver.release.clear()
    with sending(receiver.endpoint, timeout_s=3600) as program:
        program.make(1)
        until(lambda: program.exporter.counts.in_flight == 1)

        assert not program.exporter.stop(0.1)

        receiver.release.set()


def test_no_report_begins_while_the_end_of_the_process_waits(receiver: Receiver) -> None:
    reports: list[str] = []
    queue = SpanQueue(10, 1 << 20)
    exporter = Exporter(
        OtlpEncoder({}),
        HttpSender(f"{receiver.endpoint}/v1/traces", {}, PATIENCE_S),
        queue=queue,
        interval_s=3600,
        on_fault=raise_fault,
        after_round=lambda: reports.append("a report"),
    )
    provider = RecordingProvider()
    provider.configure(queue.on_end)
    provider.get_tracer("scope").start_span("name").end()
    receiver.release.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(exporter.flush, PATIENCE_S)
        until(lambda: exporter.counts.in_flight == 1)
        exporter.report(on=False)
        last = threads.submit(exporter.flush, PATIENCE_S)
        until(lambda: exporter.is_hurried)
        receiver.release.set()

        assert (first.result(), last.result()) == (True, True)

    exporter.stop(PATIENCE_S)
    assert reports == []


# --- our own faults


def test_a_span_that_cannot_be_encoded_costs_only_itself(receiver: Receiver) -> None:
    faults: list[str] = []
    with sending(receiver.endpoint, on_fault=lambda doing, _: faults.append(doing)) as program:
        program.make(2)
        tracer = program._provider.get_tracer("scope")
        tracer.start_span("broken", start_time=0.5).end()  # type: ignore[arg-type]  # wrong on purpose
        program.make(2)
        program.exporter.flush(PATIENCE_S)

    assert len(receiver.spans) == 4
    assert program.exporter.counts.dropped == 1
    assert program.exporter.counts.in_flight == 0
    assert set(faults) == {"encoding spans", "encoding a span"}


def test_a_header_that_cannot_be_sent_is_a_fault_and_no_endless_wait(receiver: Receiver) -> None:
    faults: list[str] = []
    queue = SpanQueue(10, 1 << 20)
    exporter = Exporter(
        OtlpEncoder({}),
        HttpSender(receiver.endpoint, {"key": "two\nlines"}, PATIENCE_S),
        queue=queue,
        interval_s=60,
        on_fault=lambda doing, _: faults.append(doing),
    )
    provider = RecordingProvider()
    provider.configure(queue.on_end)
    provider.get_tracer("scope").start_span("name").end()

    sent = exporter.flush(PATIENCE_S)

    exporter.stop(PATIENCE_S)
    assert not sent
    assert exporter.counts.dropped == 1
    assert faults == ["exporting spans"]


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:port", "http://[::1", "127.0.0.1:4318", "http://", "ftp://host"]
)
def test_an_address_that_is_none_is_said_at_once(url: str) -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        HttpSender(url, {}, 1.0)


# --- forks

FORKING = """
import os, sys, threading
import latencytrace

latencytrace.instrument("forking", endpoint=sys.argv[1])
with latencytrace.stage("before"):
    pass
with latencytrace.stage("around"):
    child = os.fork()
    who = "parent" if child else "child"
    with latencytrace.stage(who):
        pass
assert [thread.name for thread in threading.enumerate()].count("latencytrace-export") == 1
assert latencytrace.flush(60)
with latencytrace.stage(f"{who} again"):
    pass
assert latencytrace.flush(60)
made = latencytrace.agent_status().spans_sent
assert made == (4 if child else 2), (who, made)
if child:
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status))
os._exit(0)
"""


def test_a_forked_child_sends_its_own_spans_and_none_of_its_parents(
    receiver: Receiver, tmp_path: Path
) -> None:
    script = tmp_path / "forking.py"
    script.write_text(FORKING)

    # From 3.12 on CPython warns of a fork beside any other thread.
    done = python("-W", "ignore::DeprecationWarning", script, receiver.endpoint)

    assert (done.returncode, done.stderr) == (0, "")
    by = {span.name: span for span in receiver.spans}
    assert sorted(span.name for span in receiver.spans) == sorted(
        ["before", "around", "parent", "parent again", "child", "child again"]
    )
    assert by["child"].parent_id == by["around"].span_id
    assert by["child"].resource["process.pid"] == by["child again"].resource["process.pid"]
    assert by["child"].resource["process.pid"] != by["around"].resource["process.pid"]
    assert (
        by["child"].resource["service.instance.id"] != by["parent"].resource["service.instance.id"]
    )
    assert len({span.span_id for span in receiver.spans}) == 6


def test_the_sending_thread_belongs_to_no_request(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "latencytrace")
    with sending(receiver.endpoint) as outer:
        tracer = outer._provider.get_tracer("scope")
        with tracer.start_as_current_span("request"), sending(receiver.endpoint) as inner:
            inner.make(1)
            assert inner.exporter.flush(PATIENCE_S)

    assert warnings_in(caplog) == []
