"""Turns the spans of traces that are due into ledgers in the store."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import NamedTuple

import numpy as np

from latencytrace.errors import PoisonedBlockError, StoreError
from latencytrace.model import Request, Span
from latencytrace.service.ledger_table import Key, LedgerTable
from latencytrace.service.ledgers.attribution import FAULTS, Attributed, Attribution
from latencytrace.service.ledgers.context import PipelineContext
from latencytrace.service.ledgers.open_traces import OpenTraces
from latencytrace.service.ledgers.priority import yield_to_others
from latencytrace.service.ledgers.redelivery import apart_from_resent, grown
from latencytrace.service.ledgers.retention import SpanKeeping
from latencytrace.service.ledgers.span_parts import Parts, by_block, in_few_blocks, rooted_in
from latencytrace.service.metrics.settling import Settling
from latencytrace.service.metrics.span_account import Without
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.objectives.counts import ObjectiveIndex
from latencytrace.service.store import Revisions, Store, Written

_log = logging.getLogger(__name__)
_OBJECTS_MATTER = 8  # the object path costs at least so many times the column path


class Attributor:
    """Reads, attributes and writes traces.

    Args:
        settling: Holds written requests until metrics count them.
        now_ns: A monotonic clock.
        context: Settings and callbacks.
        on_rootless: Called with traces that were attributed without their root, if several
            services share the store.
    """

    def __init__(
        self,
        store: Store,
        traces: OpenTraces,
        settling: Settling,
        telemetry: Telemetry,
        now_ns: Callable[[], int],
        context: PipelineContext,
        on_rootless: Callable[[Collection[str]], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._on_rootless = on_rootless
        self._traces = traces
        self._settling = settling
        self._telemetry = telemetry
        self._now_ns = now_ns
        self._context = context
        self._span_keeping = SpanKeeping(context.keep_spans_ratio)
        self._under_way: _Piece | None = None  # being written
        self._thread = ThreadPoolExecutor(1, "latencytrace-write", yield_to_others)
        self._writer = _Writer(store, traces, now_ns)
        self._attribution = Attribution(telemetry, traces.is_old, store.instances, context.columns)
        self.by_columns = False  # most traces of the last batch took the column path
        self.fault: StoreError | None = None  # of the last batch
        self.recovering: set[str] = set()  # traces whose ledger was missing
        self._in_doubt: set[Key] = set()  # requests that may have been written
        self.counted_before: set[str] = set()  # traces whose ledgers were lost

    def attribute(self, taken: Sequence[str]) -> bool:
        """Attribute and write traces.

        Returns:
            False: the store failed, and the traces are open again.
        """
        has_taken = self.finish()
        return (not taken or self._end(self._begin(taken, _at_once))) and has_taken

    def go_on(self, taken: Sequence[str]) -> bool:
        """Attribute traces while the previous ones are written.

        Returns:
            False: the store failed at the previous ones, which are open again.
        """
        following = self._begin(taken, self._thread.submit)
        before, self._under_way = self._under_way, following
        has_taken = before is None or self._end(before)
        return has_taken if following.may_wait else self.finish() and has_taken

    def finish(self) -> bool:
        """Wait until the last traces are written; False: the store failed at them."""
        under_way, self._under_way = self._under_way, None
        return under_way is None or self._end(under_way)

    def attribute_all(self, taken: Sequence[str], most: int) -> None:
        """Attribute traces, at most `most` together; `fault` keeps the first error."""
        faults = []
        for start in range(0, len(taken), most):
            self.attribute(taken[start : start + most])
            faults.append(self.fault)
        self.fault = next(filter(None, faults), self.fault)

    def _begin(self, taken: Sequence[str], submit: "_Submit") -> "_Piece":
        """Attribute traces, and begin to write them."""
        piece = _Piece(taken)
        try:
            piece.batch = batch = self._attributed(taken)
            piece.written = submit(self._writer.write, batch)
        except (StoreError, *FAULTS) as error:
            piece.fault = error
        return piece

    def _end(self, piece: "_Piece") -> bool:
        """Wait until traces are written; False: the store failed.

        If a trace makes the batch fail, it is found by halving the batch; only it is set aside.
        """
        left = set(piece.taken)  # to be opened again
        halves: Sequence[Sequence[str]] = ()
        try:
            self._note(piece)
            left.clear()
            self.fault = None
        except (PoisonedBlockError, *FAULTS):
            halves = self._halves(piece.taken)
            left.clear()
        except StoreError as error:
            self.fault = error
            self._telemetry.store_errors.inc()
            _log.error("%d traces are attributed later: %s", len(left), error)
            return False
        finally:
            self._traces.again(left)
        return sum(self.attribute(half) for half in halves) == len(halves)

    def _halves(self, taken: Sequence[str]) -> tuple[Sequence[str], ...]:
        """Halve a batch that cannot be attributed; set aside a batch of one trace."""
        left = self._traces.being_attributed(taken)
        if len(left) > 1:
            return left[: len(left) // 2], left[len(left) // 2 :]
        if left:
            self._traces.without(left, dict.fromkeys(left, Without.FAULT))
            self._telemetry.faulty.inc(len(left))
            _log.exception("%s is set aside, please report this", left)
        return ()

    def _attributed(self, taken: Sequence[str]) -> "_Batch":
        """Read traces and attribute them."""
        read_ns = self._now_ns()
        held = self._traces.held(taken)
        read = self._read([one for one in taken if one not in held])
        needed = _needed(read.written)
        found = self._attribution.attributed(read.arrived, read.revisions, held, needed)
        self.by_columns = _OBJECTS_MATTER * len(found.spans) < len(taken)
        self._context.on_spans(chain(found.device_spans, *found.spans.values()))
        fresh, resent = apart_from_resent(found.tables, read.written)
        kept = _kept(fresh, self._span_keeping, self._context.objectives)
        for trace_id, steps in found.steps.items():
            kept.update(trace_id for step in steps if self._span_keeping.keeps_step(step))
        # Spans that were sent twice are written again: else the next start would attribute them.
        kept |= grown(resent, found.spans, self._store)
        known = _known(fresh, self.counted_before)
        return _Batch(
            done=set(taken) - read.reopened,
            rooted=_rooted(held, read.arrived) if self._store.is_shared else set(),
            read_ns=read_ns,
            held=held,
            found=found,
            with_request=found.with_request,
            tables=[*fresh, resent] if len(resent) else fresh,
            kept=kept,
            known=known.union(resent.keys),
            counted=self._settling.counted(known.union(resent.keys)) - self._in_doubt,
            revised=known,
        )

    def _note(self, piece: "_Piece") -> None:
        """Note that traces are written; their requests are counted once they have settled."""
        if piece.fault is not None:
            raise piece.fault
        batch, found, with_request = piece.batch, piece.batch.found, piece.batch.with_request
        try:
            done = piece.written.result()
        except StoreError:  # it may have written some of them
            self._in_doubt |= _keys(batch.tables) - batch.known  # those are counted or held
            raise
        if self._in_doubt:
            self._in_doubt -= _keys(batch.tables)
        self._settling.withdraw(found.withdrawn)
        uncounted = [_without(table, batch.counted).countable() for table in batch.tables]
        self._settling.add(uncounted, done.at_ns, batch.known - batch.counted)
        self._telemetry.withdrawn.inc(done.withdrawn)
        self._telemetry.revised.inc(len(batch.revised & batch.counted))
        self._traces.written(with_request | batch.kept)
        self._traces.attributed(with_request)
        self._traces.left(found.starts)
        self._traces.without(batch.done - with_request, found.reasons)
        self._telemetry.recovered.inc(len(self.recovering & with_request))
        if self._store.is_shared:
            self._on_rootless(batch.done - batch.rooted)
        self.recovering -= batch.done
        self.counted_before -= batch.done

    def _read(self, taken: Sequence[str]) -> "_Read":
        """Read traces from the store; open those again of which it does not show all spans yet."""
        if not taken:
            return _Read({}, {}, (), set())
        shown = self._store.arrived(taken)
        lacking = self._traces.short({one: len(shown.get(one, ())) for one in taken})
        if lacking:
            counts = self._store.arrived_counts(lacking)  # with duplicates, which `shown` lacks
            lacking = self._traces.short({one: counts.get(one, 0) for one in lacking})
        reopened = self._traces.missed(lacking)
        if reopened:
            _log.error("of %d traces the store does not show all spans yet", len(reopened))
        arrived = {one: spans for one, spans in shown.items() if one not in reopened}
        revisions = self._store.revisions(set(taken) - reopened)
        revised = {trace_id for trace_id, _ in revisions}
        written = self._store.written(revised) if revised else ()
        return _Read(arrived, revisions, written, reopened)


class _Read(NamedTuple):
    """Traces as the store has them."""

    arrived: Mapping[str, Sequence[Span]]  # of traces that are attributed now
    revisions: Revisions
    written: Sequence[Request]  # requests that the store has of them already
    reopened: AbstractSet[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Attributed traces, and what has to be written."""

    done: AbstractSet[str]  # all but the reopened ones
    rooted: AbstractSet[str]  # those with a root; empty unless services share the store
    read_ns: int
    held: Mapping[str, Parts]
    found: Attributed
    with_request: AbstractSet[str]
    tables: Sequence[LedgerTable]  # to be written
    kept: AbstractSet[str]  # traces whose spans are kept
    known: AbstractSet[Key]  # requests with an earlier revision
    counted: AbstractSet[Key]  # of `known`: counted by metrics already
    revised: AbstractSet[Key]  # of `known`: changed by this revision


class _Writer:
    """Writes batches, one after the other, on a thread of its own.

    Args:
        now_ns: A monotonic clock.
    """

    def __init__(self, store: Store, traces: OpenTraces, now_ns: Callable[[], int]) -> None:
        self._store = store
        self._traces = traces
        self._now_ns = now_ns

    def write(self, batch: _Batch) -> Written:
        """Write spans and ledgers.

        Raises:
            StoreError: Not everything was written.
        """
        found, kept = batch.found, batch.kept
        if blocks := by_block(batch.held[one] for one in kept if one in batch.held):
            self._store.keep(list(in_few_blocks(blocks)), self._now_ns() - batch.read_ns)
        if rest := self._traces.claimed(batch.with_request - kept):
            self._store.insert(rest, self._now_ns() - batch.read_ns)
        self._traces.doubt(batch.with_request)
        return self._store.write(
            batch.tables,
            kept - batch.held.keys(),
            found.withdrawn,
            self._now_ns() - batch.read_ns,
            batch.counted,
        )


@dataclass(slots=True)
class _Piece:
    """Traces that are attributed together, and the state of that."""

    taken: Sequence[str]
    fault: Exception | None = None  # then there is no batch, and nothing was written
    batch: _Batch = field(init=False)
    written: "Future[Written]" = field(init=False)

    @property
    def may_wait(self) -> bool:
        """Return whether others may be counted before it is written: it revises none."""
        return self.fault is None and not (self.batch.known or self.batch.found.withdrawn)


_Submit = Callable[[Callable[[_Batch], Written], _Batch], "Future[Written]"]


def _at_once(write: Callable[[_Batch], Written], batch: _Batch) -> "Future[Written]":
    """Write a batch on this thread."""
    written: Future[Written] = Future()
    try:
        written.set_result(write(batch))
    except (StoreError, *FAULTS) as error:
        written.set_exception(error)
    return written


def _needed(written: Iterable[Request]) -> Mapping[str, AbstractSet[str]]:
    """Return the spans that written ledgers stand on, by trace."""
    needed: dict[str, set[str]] = {}
    for request in written:
        needed.setdefault(request.trace_id, set()).update(one.span_id for one in request.segments)
    return needed


def _kept(
    tables: Iterable[LedgerTable], keeping: SpanKeeping, objectives: ObjectiveIndex
) -> set[str]:
    """Return the traces that keep their spans because of one of their requests."""
    kept: set[str] = set()
    for table in (one.countable() for one in tables):
        keeps = keeping.keeps_of(table)
        if not keeps.all():
            keeps |= objectives.violated_in(table)
        kept.update(compress(table.trace_ids, keeps.tolist()))
    return kept


def _known(tables: Iterable[LedgerTable], lost: AbstractSet[str]) -> set[Key]:
    """Return the requests that have an earlier revision.

    Args:
        lost: Traces whose ledgers were lost with a part of the store.
    """
    known: set[Key] = set()
    for table in tables:
        is_known = table.revision > 1
        if lost:
            is_known |= np.array([one in lost for one in table.trace_ids], np.bool_)
        if is_known.any():
            known.update(table.taken(np.flatnonzero(is_known)).keys)
    return known


def _rooted(held: Mapping[str, Parts], arrived: Mapping[str, Sequence[Span]]) -> set[str]:
    """Return the traces that have a root, in memory or in the store."""
    rooted = {
        one for one, spans in arrived.items() if any(span.parent_id is None for span in spans)
    }
    return rooted | rooted_in(held.values())


def _keys(tables: Iterable[LedgerTable]) -> set[Key]:
    return set(chain.from_iterable(table.keys for table in tables))


def _without(table: LedgerTable, keys: AbstractSet[Key]) -> LedgerTable:
    """Return a table without some of its requests."""
    if {trace_id for trace_id, _ in keys}.isdisjoint(table.trace_ids):
        return table
    left = [place for place, key in enumerate(table.keys) if key not in keys]
    return table.taken(np.array(left, np.int64))
