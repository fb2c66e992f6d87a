"""The intake of both receivers."""

import asyncio
import gzip
import threading
from concurrent.futures import Future
from contextlib import nullcontext

import pytest

from latencytrace.errors import OverloadedError
from latencytrace.service.ingest import intake as intake_module
from latencytrace.service.ingest.intake import LONG_BODY_BYTES, LOOK_S, Intake
from latencytrace.service.ingest.workers import MOST_WAITING, THREADS
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.traces import PROTOBUF, CheckedRequest


def submit(_: CheckedRequest) -> Future[None]:
    raise AssertionError("nothing is submitted")


def refuse() -> None:
    raise OverloadedError("send again in a second")


def test_nothing_of_a_post_is_looked_at_while_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(intake_module, "WAIT_S", 0.1)
    intake = Intake(submit, Telemetry(), require_room=refuse)

    with pytest.raises(OverloadedError, match="again in a second"):
        asyncio.run(intake.check(b"no trace request", PROTOBUF, None))


def test_a_post_waits_for_room_before_its_sender_is_put_off() -> None:
    looks = iter([True, True])

    def room_at_last() -> None:
        if next(looks, False):
            refuse()

    intake = Intake(submit, Telemetry(), require_room=room_at_last)

    assert asyncio.run(intake.check(b"", PROTOBUF, None)).span_count == 0


def test_posts_are_let_in_in_the_order_in_which_they_came() -> None:
    rooms = iter([False, False, True, False, True, False, True])
    let_in: list[int] = []

    def room_for_one() -> None:
        if not next(rooms):
            refuse()

    async def come(intake: Intake, number: int) -> None:
        await intake.check(b"", PROTOBUF, None)
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
            first = asyncio.ensure_future(intake.check(b"", PROTOBUF, None))
            await asyncio.sleep(0)
            with pytest.raises(OverloadedError, match="again in a second"):
                await intake.check(b"no trace request", PROTOBUF, None)
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
            await intake.check(body, PROTOBUF, "gzip")
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
        waiting = asyncio.ensure_future(intake.check(b"", PROTOBUF, None))
        await asyncio.wait([waiting], timeout=LOOK_S)
        was_done = waiting.done()
        free.set()
        await asyncio.gather(*under_way)
        return [was_done, (await waiting).span_count]

    assert asyncio.run(crowd()) == [False, 0]
