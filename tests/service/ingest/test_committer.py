"""When requests are committed, and what becomes of each of them."""

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.errors import OtlpError, OverloadedError, PoisonedBlockError, StoreError
from latencytrace.service.ingest import committer
from latencytrace.service.ingest.committer import CommitQueue, Committer, Outcome, Waiting
from latencytrace.service.ingest.journal import Journal
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.span_block import SpanBlock, unpacked
from latencytrace.service.otlp.traces import CheckedRequest
from tests.support.builders.spans.otlp_messages import one_span
from tests.support.builders.spans.otlp_messages import otlp as encoded
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import PATIENCE_S

MS = 1_000_000


class BlockStore:
    """The one method of a store that a committer uses; refuses blocks with a given text."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.poisons: Sequence[bytes] = ()
        self.fault: StoreError | None = None
        self.go = threading.Event()
        self.go.set()
        self.entered = threading.Semaphore(0)

    def insert(self, blocks: Sequence[SpanBlock]) -> None:
        """Keep the blocks, once it may."""
        block = b"".join(one.packed() for one in blocks)
        self.entered.release()
        self.go.wait()
        if self.fault:
            raise self.fault
        if any(poison in block for poison in self.poisons):
            raise PoisonedBlockError("it is poisoned")
        self.blocks.append(block)


class Rig:
    """A committer with its store, and what it told."""

    def __init__(
        self,
        max_bytes: int = 10**6,
        journal: Journal | None = None,
        begin: Callable[[SpanBlock], SpanBlock | None] = lambda columns: columns,
        now_ns: Callable[[], int] | None = None,
    ) -> None:
        self.store = BlockStore()
        self.told: list[list[CheckedRequest]] = []
        self.refused: list[int] = []
        self.failed: list[CheckedRequest] = []
        self.waiting: list[CheckedRequest] = []
        self.committer = Committer(
            self.store,
            on_settled=self._settled,
            # By itself a second at each look.
            now_ns=now_ns or iter(range(10**18, 10**19, 10**9)).__next__,
            begin=begin,
            max_bytes=max_bytes,
            journal=journal,
        )

    def _settled(self, requests: Sequence[CheckedRequest], outcome: Outcome) -> None:
        match outcome:
            case Outcome.STORED:
                self.told.append(list(requests))
            case Outcome.REFUSED:
                self.refused += [request.span_count for request in requests]
            case Outcome.FAILED:
                self.failed += requests
            case Outcome.WAITING:
                self.waiting += requests


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    rig.committer.start()
    yield rig
    rig.store.go.set()
    rig.committer.close()


def checked(name: str, spans: int = 1) -> CheckedRequest:
    request = otlp.check(encoded(*(one_span(name=name) for _ in range(spans))), None, None)
    assert name.encode() in request.columns.packed()
    return request


def waiting(spans: int = 1) -> Waiting:
    return Waiting(request=checked("x", spans))


# When


def test_nothing_waits_at_first() -> None:
    assert CommitQueue().due_in_ns(0) is None


def test_a_request_is_due_at_once_when_nothing_was_committed_lately() -> None:
    commits = CommitQueue()
    commits.add(waiting())

    assert commits.due_in_ns(0) == 0
    commits.take(0)
    assert commits.due_in_ns(1) is None
    commits.add(waiting())
    assert commits.due_in_ns(100 * MS) == 0


def test_after_a_commit_the_next_waits_for_company_but_no_longer_than_the_interval() -> None:
    commits = CommitQueue()
    commits.add(waiting())
    commits.take(0)
    commits.add(waiting())

    assert commits.due_in_ns(30 * MS) == 70 * MS
    assert commits.due_in_ns(99 * MS) == 1 * MS
    assert commits.due_in_ns(170 * MS) == 0


def test_a_clock_set_back_holds_up_nobody_for_longer_than_the_interval() -> None:
    commits = CommitQueue()
    commits.add(waiting())
    commits.take(3600 * 1000 * MS)
    commits.add(waiting())

    assert commits.due_in_ns(0) == 100 * MS


def test_what_may_wait_is_not_committed_with_what_is_due() -> None:
    commits = CommitQueue(max_spans=3)
    for due_ms in (100, 200, 5000):
        commits.add(replace(waiting(2), due_ns=due_ms * MS))

    assert commits.due_in_ns(0) == 100 * MS
    assert len(commits.take(150 * MS)) == 1
    assert commits.due_in_ns(260 * MS) == 0
    assert len(commits.take(260 * MS)) == 1
    assert commits.due_in_ns(400 * MS) == 4600 * MS
    assert len(commits.take(400 * MS, early=True)) == 1


def test_a_request_is_removed_by_its_columns() -> None:
    commits = CommitQueue()
    first, second = waiting(2), waiting(3)
    commits.add(first)
    commits.add(second)

    assert commits.remove([first.request.columns]) == [first]
    assert commits.take(0) == [second]


def test_a_full_commit_waits_for_nothing_and_leaves_the_rest() -> None:
    commits = CommitQueue(max_spans=3)
    commits.add(waiting())
    commits.take(0)
    for _ in range(4):
        commits.add(waiting(2))

    assert commits.due_in_ns(1) == 0
    assert len(commits.take(1)) == 2
    assert len(commits.take(1)) == 2
    assert commits.due_in_ns(1) is None


# What


def test_a_future_resolves_after_its_commit_and_the_listener_was_told(rig: Rig) -> None:
    request = checked("one")

    rig.committer.submit(request).result(timeout=PATIENCE_S)

    assert rig.store.blocks == [request.columns.packed()]
    assert rig.told == [[request]]


def test_a_request_without_spans_is_answered_without_a_commit(rig: Rig) -> None:
    rig.committer.submit(otlp.check(b"", None, None)).result(timeout=0)

    assert rig.told == []


def test_what_comes_during_a_commit_is_committed_together(rig: Rig) -> None:
    rig.store.go.clear()
    first = rig.committer.submit(checked("first"))
    rig.store.entered.acquire(timeout=PATIENCE_S)
    requests = [checked(name) for name in "abc"]
    futures = [rig.committer.submit(request) for request in requests]
    assert not first.done()

    rig.store.go.set()

    _wait(futures)
    assert rig.told[1] == requests
    assert rig.store.blocks[1] == b"".join(request.columns.packed() for request in requests)


def test_closing_commits_what_is_queued_and_refuses_the_rest(rig: Rig) -> None:
    rig.store.go.clear()
    futures = [rig.committer.submit(checked("first"))]
    rig.store.entered.acquire(timeout=PATIENCE_S)
    futures.append(rig.committer.submit(checked("second")))
    rig.store.go.set()

    rig.committer.close()

    assert [future.result(timeout=0) for future in futures] == [None, None]
    with pytest.raises(StoreError, match="shutting down"):
        rig.committer.submit(checked("third"))


def test_a_sender_that_hung_up_disturbs_nobody(rig: Rig) -> None:
    rig.store.go.clear()
    rig.committer.submit(checked("first"))
    rig.store.entered.acquire(timeout=PATIENCE_S)
    gone, there = rig.committer.submit(checked("gone")), rig.committer.submit(checked("there"))
    gone.cancel()
    rig.store.go.set()

    there.result(timeout=PATIENCE_S)

    assert len(rig.told[1]) == 2


def test_too_much_waiting_is_refused_until_it_is_committed() -> None:
    request = checked("first")
    rig = Rig(max_bytes=request.columns.nbytes * 2)
    rig.store.go.clear()
    futures = [rig.committer.submit(request), rig.committer.submit(request)]

    with pytest.raises(OverloadedError, match="again in a second"):
        rig.committer.submit(request)

    rig.committer.start()
    rig.store.go.set()
    _wait(futures)
    rig.committer.close()
    assert rig.committer.waiting_bytes == 0


def test_a_store_that_fails_fails_its_senders_but_not_the_committer(rig: Rig) -> None:
    rig.store.fault = StoreError("the disk is full")

    with pytest.raises(StoreError, match="the disk is full"):
        rig.committer.submit(checked("one")).result(timeout=PATIENCE_S)

    rig.store.fault = None
    rig.committer.submit(checked("two")).result(timeout=PATIENCE_S)
    assert len(rig.told) == 1


# Long waits


@pytest.fixture
def resting(tmp_path: Path) -> Iterator[Rig]:
    """One that has committed something, and will not soon again unless it must."""
    rig = Rig(journal=Journal(tmp_path))
    rig.committer.set_interval(10**18)
    rig.committer.start()
    rig.committer.submit(checked("first")).result(timeout=PATIENCE_S)
    rig.committer.flush()
    yield rig
    rig.committer.close()


def left(folder: Path) -> list[bytes]:
    return [block for block, _ in Journal(folder).left()]


def test_what_would_wait_for_long_is_answered_once_the_journal_holds_it(
    resting: Rig, tmp_path: Path
) -> None:
    request = checked("second")

    resting.committer.submit(request).result(timeout=0)

    assert left(tmp_path) == [request.columns.packed()]
    assert len(resting.store.blocks) == 1


def test_a_flush_commits_what_waits_and_the_journal_lets_go_of_it(
    resting: Rig, tmp_path: Path
) -> None:
    requests = [checked(name) for name in "abc"]
    for request in requests:
        resting.committer.submit(request)

    resting.committer.flush()

    assert resting.store.blocks[1:] == [b"".join(request.columns.packed() for request in requests)]
    assert resting.told[1] == requests
    assert left(tmp_path) == []
    assert resting.committer.waiting_bytes == 0


def test_a_flush_of_nothing_does_nothing(resting: Rig) -> None:
    resting.committer.flush()

    assert len(resting.store.blocks) == 1


def test_what_others_have_stored_is_not_committed_and_the_journal_lets_go_of_it(
    resting: Rig, tmp_path: Path
) -> None:
    theirs, ours = checked("theirs"), checked("ours")
    for request in (theirs, ours):
        resting.committer.submit(request)

    resting.committer.release([theirs.columns])
    waiting_bytes = resting.committer.waiting_bytes
    resting.committer.flush()

    assert waiting_bytes == ours.columns.nbytes
    assert resting.store.blocks[1:] == [ours.columns.packed()]
    assert left(tmp_path) == []
    assert resting.committer.waiting_bytes == 0


def test_a_store_that_takes_spans_from_others_fails_no_longer(resting: Rig) -> None:
    request = checked("second")
    resting.committer.submit(request)
    resting.store.fault = StoreError("the disk is full")
    with pytest.raises(StoreError, match="the disk is full"):
        resting.committer.flush()
    failing = resting.committer.fault
    resting.store.fault = None
    resting.committer.release([request.columns])
    resting.committer.flush()

    assert failing is not None
    assert resting.committer.fault is None


def test_a_flush_does_not_wait_for_what_others_have_stored_meanwhile(tmp_path: Path) -> None:
    rig = Rig(journal=Journal(tmp_path), now_ns=FakeClock(10**18))
    rig.committer.set_interval(10**9, 6 * 10**9)
    rig.committer.start()
    failed, later = checked("failed"), checked("later")
    rig.committer.submit(failed)
    rig.store.fault = StoreError("the disk is full")
    with pytest.raises(StoreError, match="the disk is full"):
        rig.committer.flush()
    rig.store.fault = None
    rig.committer.release([failed.columns])
    rig.committer.submit(later)

    rig.committer.flush()
    rig.committer.close()

    assert rig.store.blocks == [later.columns.packed()]


def test_a_request_waits_while_others_store_a_part_and_the_rest_is_committed(
    tmp_path: Path,
) -> None:
    request, part = checked("whole", spans=2), checked("part")
    answers: list[SpanBlock | None] = [part.columns, None, None]
    rig = Rig(journal=Journal(tmp_path), begin=lambda _: answers.pop())
    rig.committer.start()
    rig.committer.submit(request)
    rig.committer.flush()
    rig.committer.close()

    assert answers == []
    assert rig.store.blocks == [part.columns.packed()]
    assert rig.told == [[request]]
    assert left(tmp_path) == []


def test_a_full_commit_waits_for_no_flush(resting: Rig) -> None:
    resting.committer.submit(checked("many", spans=committer.MAX_SPANS))

    assert resting.store.entered.acquire(timeout=PATIENCE_S)  # of the first
    assert resting.store.entered.acquire(timeout=PATIENCE_S)


def test_what_was_answered_for_is_tried_again_when_the_store_fails(
    resting: Rig, tmp_path: Path
) -> None:
    request = checked("second")
    resting.committer.submit(request)
    resting.store.fault = StoreError("the disk is full")

    with pytest.raises(StoreError, match="the disk is full"):
        resting.committer.flush()

    assert left(tmp_path) == [request.columns.packed()]
    assert request in resting.waiting
    resting.store.fault = None
    resting.committer.flush()
    assert resting.store.blocks[1:] == [request.columns.packed()]
    assert left(tmp_path) == []


def test_what_a_failing_store_never_took_is_left_to_the_next_process(tmp_path: Path) -> None:
    rig, request = Rig(journal=Journal(tmp_path)), checked("second")
    rig.committer.set_interval(10**18)
    rig.committer.start()
    rig.committer.submit(checked("first")).result(timeout=PATIENCE_S)
    rig.committer.flush()
    rig.committer.submit(request)
    rig.store.fault = StoreError("the disk is full")
    rig.committer.close()

    after = Rig(journal=Journal(tmp_path))
    resumed = after.committer.resume()
    after.committer.start()
    after.committer.flush()
    after.committer.close()

    spans = request.columns.spans()
    assert [one.columns.spans() for one in resumed] == [spans]
    assert [unpacked(block).spans() for block in after.store.blocks] == [spans]
    assert left(tmp_path) == []


def test_what_was_answered_for_and_is_poisoned_is_counted(resting: Rig, tmp_path: Path) -> None:
    resting.store.poisons = [b"poison"]
    good = checked("good")
    resting.committer.submit(good)
    resting.committer.submit(checked("poison", spans=3))

    resting.committer.flush()

    assert resting.refused == [3]
    assert resting.store.blocks[1:] == [good.columns.packed()]
    assert left(tmp_path) == []


def test_a_journal_that_cannot_be_written_refuses_its_sender(resting: Rig, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)

    with pytest.raises(StoreError, match="journal"):
        resting.committer.submit(checked("second"))


def test_a_fault_of_ours_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    monkeypatch.setattr(threading, "excepthook", lambda _: None)  # it is told, and expected

    def fault(*_: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr(BlockStore, "insert", fault)
    rig.committer.start()
    with pytest.raises(StoreError, match="has failed"):
        rig.committer.submit(checked("one")).result(timeout=PATIENCE_S)

    rig.committer.flush()
    rig.committer.close()
    assert not rig.committer.is_running


# Poison


@pytest.mark.parametrize("position", range(5))
def test_a_poisoned_request_loses_nothing_of_the_others(rig: Rig, position: int) -> None:
    rig.store.go.clear()
    rig.committer.submit(checked("first"))
    rig.store.entered.acquire(timeout=PATIENCE_S)
    rig.store.poisons = [b"poison"]
    requests = [checked("poison" if index == position else "good") for index in range(5)]
    futures = [rig.committer.submit(request) for request in requests]
    rig.store.go.set()

    with pytest.raises(OtlpError, match="it is poisoned"):
        futures[position].result(timeout=PATIENCE_S)

    good = [request for index, request in enumerate(requests) if index != position]
    _wait(futures[:position] + futures[position + 1 :])
    assert b"".join(rig.store.blocks[1:]) == b"".join(request.columns.packed() for request in good)
    assert rig.told[1] == good


def _wait(futures: Sequence[Future[None]]) -> None:
    assert [future.result(timeout=PATIENCE_S) for future in futures] == [None] * len(futures)
