"""Posts that are checked together are kept as they would be one by one."""

import asyncio
import gzip
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.errors import OtlpError, StoreError
from latencytrace.model import Span
from latencytrace.service.ingest import gathering
from latencytrace.service.ingest.gathering import Gathering, Post, checked_together, is_whole
from latencytrace.service.ingest.intake import LONG_BODY_BYTES, Intake
from latencytrace.service.ingest.workers import THREADS, Workers
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.traces import (
    PROTOBUF,
    CheckedRequest,
    check,
    check_protobuf,
)
from tests.support.builders.spans.otlp_messages import message, one_span, proto_span

PATIENCE_S = 30


def body(number: int, spans: int = 1) -> bytes:
    """A request whose spans tell it from others."""
    request = message([])
    scope = request.resource_spans.add().scope_spans.add()
    for at in range(spans):
        span = one_span(span_id=f"{number:08x}{at + 1:08x}", name=f"of {number}")
        scope.spans.append(proto_span(span))
    return request.SerializeToString()


def spans_of(request: CheckedRequest) -> list[Span]:
    return request.columns.spans(range(request.span_count))


TORN = body(1)[:-1]  # what follows would be taken for its end
OTHER_FIELD = body(2) + b"\x12\x00"
REJECTED = body(3).replace(bytes.fromhex("0000000300000001"), bytes(8))
NO_ID, NOTHING, LONG_LENGTH = b"\x0a\x02\x12\x00", b"", b"\x0a" + b"\xff" * 9
bodies = st.lists(
    st.integers(4, 40).map(body)
    | st.integers(4, 40).map(lambda number: gzip.compress(body(number, 3)))
    | st.sampled_from((TORN, OTHER_FIELD, REJECTED, NO_ID, NOTHING, LONG_LENGTH))
    | st.binary(max_size=20),
    max_size=7,
)


@given(bodies)
def test_what_is_checked_together_is_what_each_would_be(posted: list[bytes]) -> None:
    encodings = ["gzip" if one.startswith(b"\x1f\x8b") else None for one in posted]

    found = checked_together(list(zip(posted, encodings, strict=True)), check_protobuf)

    wanted: dict[int, list[Span]] = {}
    rejected: dict[int, int] = {}
    for one, encoding, post in zip(posted, encodings, found, strict=True):
        if not isinstance(post, Post):
            with pytest.raises(OtlpError, match=re.escape(str(post))):
                check(one, None, encoding)
            continue
        alone = check(one, None, encoding)
        wanted.setdefault(id(post), []).extend(spans_of(alone))
        rejected[id(post)] = rejected.get(id(post), 0) + alone.rejected_spans
    for post in found:
        if isinstance(post, Post):
            assert spans_of(post.request) == wanted[id(post)]
            assert post.request.rejected_spans == rejected[id(post)]


def test_posts_are_one_as_far_as_they_are_whole_and_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "TOGETHER_BYTES", 3 * len(body(1)))
    posted = [body(1), body(2), TORN, body(3), body(4), body(5), body(6)]

    found = checked_together([(one, None) for one in posted], check_protobuf)

    names = [post.request.span_count if isinstance(post, Post) else None for post in found]
    assert names == [2, 2, None, 3, 3, 3, 1]
    assert found[0] is found[1]


@pytest.mark.parametrize("odd", [TORN, OTHER_FIELD, LONG_LENGTH, b"\x0a", b"\x0a\x00" * 99])
def test_a_body_that_is_odd_is_not_whole(odd: bytes) -> None:
    assert not is_whole(odd)


def crowd_of(senders: int, check: Callable[[bytes], CheckedRequest], busy: int) -> list[Post]:
    """Have so many posts checked while so many threads are busy."""

    async def crowd() -> list[Post]:
        workers, free = Workers(), threading.Event()
        gathered = Gathering(workers, check)
        first = [asyncio.ensure_future(workers.run(free.wait)) for _ in range(busy)]
        await asyncio.sleep(0)
        posts = [asyncio.ensure_future(gathered.check(body(n), None)) for n in range(senders)]
        await asyncio.sleep(0)
        free.set()
        await asyncio.gather(*first)
        return await asyncio.gather(*posts)

    return asyncio.run(asyncio.wait_for(crowd(), PATIENCE_S))


def test_posts_that_wait_for_a_thread_are_checked_as_one() -> None:
    sizes: list[int] = []

    def counted(plain: bytes) -> CheckedRequest:
        sizes.append(len(plain))
        return check_protobuf(plain)

    posts = crowd_of(20, counted, busy=THREADS)

    assert len(sizes) == THREADS + 1  # two that came first, and all that came meanwhile
    assert sum(sizes) == sum(len(body(n)) for n in range(20))
    assert len({id(post) for post in posts}) == THREADS + 1
    kept = [
        span
        for post in {id(post): post for post in posts}.values()
        for span in spans_of(post.request)
    ]
    assert sorted(span.name for span in kept) == sorted(f"of {n}" for n in range(20))


def test_a_fault_of_ours_in_a_check_reaches_whoever_it_was_for() -> None:
    def fails(plain: bytes) -> CheckedRequest:
        if b"of 3" in plain:
            raise ValueError("a fault")
        return check_protobuf(plain)

    async def crowd() -> list[Post | BaseException]:
        gathered = Gathering(Workers(), fails)
        return await asyncio.gather(
            *(gathered.check(body(n), None) for n in range(6)), return_exceptions=True
        )

    found = asyncio.run(asyncio.wait_for(crowd(), PATIENCE_S))

    assert [isinstance(one, ValueError) for one in found] == [
        False,
        False,
        False,
        True,
        False,
        False,
    ]


class Store:
    """What was submitted, and is kept once its future says so."""

    def __init__(self) -> None:
        self.submitted: list[CheckedRequest] = []
        self.futures: list[Future[None]] = []


def posting(
    store: Store, numbers: Sequence[int], then: Callable[[list["asyncio.Task[None]"]], None]
) -> list[BaseException | None]:
    """Have long posts kept that were checked as one; once they are submitted, do something."""
    free, all_submitted = threading.Event(), threading.Event()

    def waits(plain: bytes, *, capture_content: bool) -> CheckedRequest:
        free.wait(PATIENCE_S)
        return check_protobuf(plain, capture_content=capture_content)

    def submit(checked: CheckedRequest) -> "Future[None]":
        store.submitted.append(checked)
        store.futures.append(Future())
        if len(store.submitted) == THREADS + 1:
            all_submitted.set()
        return store.futures[-1]

    async def sender(intake: Intake, number: int) -> None:
        post = await intake.check(body(number, LONG), PROTOBUF, None)
        await intake.keep(post)

    async def crowd() -> list[BaseException | None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(otlp, "check_protobuf", waits)
            intake = Intake(submit, Telemetry())
        first = [asyncio.ensure_future(sender(intake, 1000 + n)) for n in range(THREADS)]
        await asyncio.sleep(0)
        senders = [asyncio.ensure_future(sender(intake, number)) for number in numbers]
        await asyncio.sleep(0)
        free.set()
        await asyncio.to_thread(all_submitted.wait, PATIENCE_S)
        then(senders)
        found = await asyncio.gather(*senders, return_exceptions=True)
        await asyncio.gather(*first, return_exceptions=True)
        return found

    return asyncio.run(asyncio.wait_for(crowd(), PATIENCE_S))


LONG = 2 * LONG_BODY_BYTES // len(body(1))  # spans of a body that is not checked at once


def test_a_sender_that_hangs_up_takes_nothing_from_those_beside_him() -> None:
    store = Store()

    def hang_up(senders: list["asyncio.Task[None]"]) -> None:
        senders[1].cancel()
        for future in store.futures:
            future.set_result(None)

    found = posting(store, [1, 2, 3], hang_up)

    assert found[0] is None
    assert found[2] is None
    assert isinstance(found[1], asyncio.CancelledError)
    names = [{span.name for span in spans_of(one)} for one in store.submitted]
    assert names.count({"of 1", "of 2", "of 3"}) == 1  # once, for all three


def test_what_cannot_be_kept_is_refused_to_all_of_its_senders() -> None:
    store = Store()

    def refuse(_: object) -> None:
        for future in store.futures:
            future.set_exception(StoreError("the disk is full"))

    found = posting(store, [1, 2, 3], refuse)

    assert [str(one) for one in found] == ["the disk is full"] * 3


def test_a_gathering_that_is_full_says_so() -> None:
    async def crowd() -> list[bool]:
        free = threading.Event()

        def waits(plain: bytes) -> CheckedRequest:
            free.wait(PATIENCE_S)
            return check_protobuf(plain)

        gathered = Gathering(Workers(), waits)
        many = gathering.MOST_WAITING + THREADS
        posts = [asyncio.ensure_future(gathered.check(body(n), None)) for n in range(many)]
        await asyncio.sleep(0)
        was_full = gathered.is_full
        free.set()
        await asyncio.gather(*posts)
        return [was_full, gathered.is_full]

    assert asyncio.run(asyncio.wait_for(crowd(), PATIENCE_S)) == [True, False]
