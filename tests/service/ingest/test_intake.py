"""The intake of both receivers."""

import asyncio
import gzip
import threading
from concurrent.futures import Future
from contextlib import nullcontext

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.errors import OverloadedError, StoreError
from latencytrace.service.ingest import intake as intake_module
from latencytrace.service.ingest.intake import LONG_BODY_BYTES, LOOK_S, Intake
from latencytrace.service.ingest.workers import MOST_WAITING, THREADS
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.traces import JSON, PROTOBUF, CheckedRequest
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.builders.zoo.posts import as_json
from tests.support.compiled import COMPILED


def submit(_: CheckedRequest) -> Future[None]:
    """Keep it at once."""
    future: Future[None] = Future()
    future.set_result(None)
    return future


def refuse() -> None:
    raise OverloadedError("send again in a second")


def test_nothing_of_a_post_is_looked_at_while_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_module, "WAIT_S", 0.1)
    intake = Intake(submit, Telemetry(), require_room=refuse)

    with pytest.raises(OverloadedError, match="again in a second"):
        asyncio.run(intake.take(b"no trace request", PROTOBUF, None))


def test_a_post_waits_for_room_before_its_sender_is_put_off() -> None:
    looks = iter([True, True])

    def room_at_last() -> None:
        if next(looks, False):
            refuse()

    intake = Intake(submit, Telemetry(), require_room=room_at_last)

    assert asyncio.run(intake.take(b"", PROTOBUF, None)).span_count == 0


def test_posts_are_let_in_in_the_order_in_which_they_came() -> None:
    rooms = iter([False, False, True, False, True, False, True])
    let_in: list[int] = []

    def room_for_one() -> None:
        if not next(rooms):
            refuse()

    async def come(intake: Intake, number: int) -> None:
        await intake.take(b"", PROTOBUF, None)
        let_in.append(number)

    async def crowd() -> None:
        intake = Intake(submit, Telemetry(), require_room=room_for_one)
        await asyncio.gather(*(come(intake, number) for number in range(3)))

    asyncio.run(crowd())

    assert let_in == [0, 1, 2]


@pytest.mark.parametrize(("bound", "most"), [("WAITING_BYTES", 10), ("WAITING", 1)])
def test_few_posts_of_few_bytes_wait_for_room(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    monkeypatch.setattr(intake_module, bound, most)
    monkeypatch.setattr(intake_module, "WAIT_S", 1e6)
    is_full = True

    def room() -> None:
        if is_full:
            refuse()

    async def crowd() -> int:
        nonlocal is_full
        intake = Intake(submit, Telemetry(), require_room=room)
        with intake.share() as another:
            another.take(1_000)  # that is being read: it does not wait
            first = asyncio.ensure_future(intake.take(b"", PROTOBUF, None))
            await asyncio.sleep(0)
            with pytest.raises(OverloadedError, match="again in a second"):
                await intake.take(b"no trace request", PROTOBUF, None)
            is_full = False
            return (await first).span_count

    assert asyncio.run(crowd()) == 0


@pytest.mark.parametrize(
    ("body", "is_beside"),
    [
        pytest.param(gzip.compress(b""), False, id="short"),
        pytest.param(gzip.compress(bytes(LONG_BODY_BYTES + 1)), True, id="short, and grows"),
        pytest.param(gzip.compress(b"") * 50_000, True, id="long, and shrinks"),
    ],
)
def test_what_would_hold_up_the_event_loop_is_checked_beside_it(
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    is_beside: bool,
) -> None:
    monkeypatch.setattr(intake_module, "WAIT_S", 0.0)
    intake = Intake(submit, Telemetry())

    async def come_while_every_place_is_held() -> None:
        free = threading.Event()
        places = range(THREADS + MOST_WAITING)
        held = [asyncio.ensure_future(intake.beside(free.wait)) for _ in places]
        await asyncio.sleep(0)
        try:
            await intake.take(body, PROTOBUF, "gzip")
        finally:
            free.set()
            await asyncio.gather(*held)

    expected = pytest.raises(OverloadedError) if is_beside else nullcontext()
    with expected:
        asyncio.run(come_while_every_place_is_held())


def test_a_post_waits_while_as_many_are_checked_as_can_be() -> None:
    intake = Intake(submit, Telemetry())

    async def crowd() -> list[object]:
        free = threading.Event()
        under_way = [asyncio.ensure_future(intake.beside(free.wait)) for _ in range(THREADS + 1)]
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(intake.take(b"", PROTOBUF, None))
        await asyncio.wait([waiting], timeout=LOOK_S)
        was_done = waiting.done()
        free.set()
        await asyncio.gather(*under_way)
        return [was_done, (await waiting).span_count]

    assert asyncio.run(crowd()) == [False, 0]


SPANS = [otlp(one_span(f"{number:032x}")) for number in range(1, 6)]
AS_JSON = as_json(ExportTraceServiceRequest.FromString(SPANS[0]))
REJECTED = otlp(one_span("0" * 32))


class Kept:
    """Remembers what is submitted, and answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[CheckedRequest] = []
        self.came = asyncio.Event()
        self.answer: Future[None] = Future()

    def __call__(self, request: CheckedRequest) -> Future[None]:
        self.requests.append(request)
        self.came.set()
        return self.answer

    def crowd(self, *bodies: bytes, error: Exception | None = None) -> list[object]:
        """Have bodies taken that come at once; what each sender hears."""

        async def come() -> list[object]:
            intake = Intake(self, Telemetry())
            senders = [
                asyncio.ensure_future(intake.take(body, JSON if body[:1] == b"{" else None, None))
                for body in bodies
            ]
            await self.came.wait()
            assert not any(one.done() and not one.exception() for one in senders)
            if error is None:
                self.answer.set_result(None)
            else:
                self.answer.set_exception(error)
            return await asyncio.gather(*senders, return_exceptions=True)

        return asyncio.run(come())

    @property
    def span_counts(self) -> list[int]:
        return [one.span_count for one in self.requests]


@COMPILED
def test_short_bodies_that_come_at_once_are_checked_and_kept_as_one() -> None:
    kept = Kept()

    heard = kept.crowd(*SPANS[1:], AS_JSON)

    assert kept.span_counts == [len(SPANS)]
    assert heard == [kept.requests[0]] * len(SPANS)
    assert set(kept.requests[0].rows) == {f"{number:032x}" for number in range(1, 6)}


@pytest.mark.parametrize(
    ("odd", "spans"),
    [
        pytest.param(SPANS[0][:-1], 0, id="torn"),
        pytest.param(b"no trace request", 0, id="none"),
        pytest.param(REJECTED, 0, id="rejected"),
        pytest.param(SPANS[0].replace(b"rag", b"r\xff\xff"), 1, id="mended"),
        pytest.param(AS_JSON.replace(b"traceId", b"trace_id"), 1, id="unusual JSON"),
    ],
)
def test_an_odd_body_costs_those_that_come_with_it_nothing(odd: bytes, spans: int) -> None:
    alone: list[object] = Kept().crowd(odd) if spans else []
    kept = Kept()

    first, heard, last = kept.crowd(SPANS[1], odd, SPANS[2])

    assert [getattr(one, "span_counts", None) for one in (first, last)] == [
        {f"{number:032x}": 1} for number in (2, 3)
    ]
    assert sum(kept.span_counts) == 2 + spans
    assert getattr(heard, "span_count", 0) == spans
    assert [getattr(one, "mending", None) for one in alone] == [
        getattr(heard, "mending", None)
    ] * bool(spans)


def test_all_hear_that_the_store_fails() -> None:
    error = StoreError("the disk is full")

    assert Kept().crowd(*SPANS, error=error) == [error] * len(SPANS)


def test_a_sender_that_hangs_up_costs_those_that_came_with_it_nothing() -> None:
    kept = Kept()

    async def come() -> list[object]:
        intake = Intake(kept, Telemetry())
        senders = [asyncio.ensure_future(intake.take(body, None, None)) for body in SPANS]
        await kept.came.wait()
        senders[0].cancel()
        kept.answer.set_result(None)
        return await asyncio.gather(*senders, return_exceptions=True)

    first, *others = asyncio.run(come())

    assert isinstance(first, asyncio.CancelledError)
    assert all(isinstance(one, CheckedRequest) for one in others)
    assert sum(kept.span_counts) == len(SPANS)


def test_no_more_are_taken_together_than_would_hold_up_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_module, "LONG_BODY_BYTES", 2 * len(SPANS[0]))
    kept = Kept()

    kept.crowd(*SPANS)

    assert max(kept.span_counts) <= 2
    assert sum(kept.span_counts) == len(SPANS)
