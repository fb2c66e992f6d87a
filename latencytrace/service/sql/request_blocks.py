"""Tables of requests as blocks for the table `requests`: arrays only.

It costs 6 µs of CPU a request (`tests/benchmarks/bench_columns.py`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from latencytrace.analysis.columns import reported
from latencytrace.analysis.columns.objects import FIRST_TOKEN_OF
from latencytrace.analysis.columns.request_table import Root, Words, by_appearance
from latencytrace.model import Request, RequestStatus, Stage
from latencytrace.model.stage import STAGES
from latencytrace.service.ledger_table import Key, LedgerTable, each_request
from latencytrace.service.sql import native_values
from latencytrace.service.sql.request_rows import TARGET
from latencytrace.service.sql.tables import stage_column

_U32 = (1 << 32) - 1
_U64 = (1 << 64) - 1
_MS = 1_000_000

_RUNTIME: Final = STAGES.index(Stage.RUNTIME)
_KNOWN: Mapping[str, int] = {
    "TimeToFirstTokenNs": reported.FIRST_TOKEN,
    "ModelTimeToFirstTokenNs": reported.MODELS_FIRST_TOKEN,
    "TimePerOutputTokenNs": reported.PER_TOKEN,
    "InputTokens": reported.INPUT,
    "CachedInputTokens": reported.CACHED,
    "OutputTokens": reported.OUTPUT,
    "BatchSize": reported.BATCH_SIZE,
    "QueueDepth": reported.QUEUE_DEPTH,
    "Concurrency": reported.CONCURRENCY,
    "Preemptions": reported.REQUEST_PREEMPTIONS,
}
NONE_COUNTED: Final[Mapping[Key, int]] = MappingProxyType({})
T = TypeVar("T")


def void(key: Key, start_ns: int, revision: int) -> Request:
    """The row of a request that starts elsewhere by now, or is none any more; its key counts.

    Args:
        start_ns: When it starts no more.
        revision: The new one.
    """
    return Request(
        trace_id=key[0], span_id=key[1], revision=revision, start_ns=start_ns & _U64,
        duration_ns=0, outermost=False, service="", instance=None, route="", model=None,
        version=None, status=RequestStatus.OK, ledger={}, segments=(),
    )  # fmt: skip


def block_of(
    tables: Sequence[LedgerTable],
    voids: Sequence[Request],
    read_ns: int,
    counted_as_ns: Mapping[Key, int],
) -> bytes:
    """Tables as blocks, one behind the other.

    Args:
        voids: The rows of requests that moved or are none any more; they come first, so that
            the later one stands where one has the key of a row of today.
        read_ns: Wall time when their spans were read; what arrived since is not in them.
        counted_as_ns: When the earlier revision was written that a request was counted under.
    """
    written = b""
    if voids:  # in one block with the requests that moved: of two, either may come first
        revised = [table for table in tables if table.is_revised]
        tables = [table for table in tables if not table.is_revised]
        table = LedgerTable.of([*voids, *each_request(revised)])
        written = block_of_table(table, read_ns, counted_as_ns, len(voids))
    blocks = (block_of_table(table, read_ns, counted_as_ns) for table in tables if len(table))
    return written + b"".join(blocks)


def block_of_table(
    table: LedgerTable,
    read_ns: int,
    counted_as_ns: Mapping[Key, int] = NONE_COUNTED,
    voids: int = 0,
) -> bytes:
    """A table as a block, of which the first rows void others."""
    none = np.zeros(len(table), np.uint64)
    written = {
        "Moved": (np.arange(len(table)) < voids).tobytes(),
        "CountedAs": _counted_as(table, counted_as_ns, voids),
        "Written": (none + np.uint64(read_ns // _MS)).tobytes(),
        **_columns_of_roots(table),
        **_columns_of_lists(table),
        "TraceId": _hex_rows(bytes.fromhex("".join(table.trace_ids)), 16),
        "SpanId": _hex_rows(table.span_id.astype(">u8").tobytes(), 8),
        "Revision": table.revision.tobytes(),
        "Outermost": table.outermost.tobytes(),
        "Startup": table.startup.tobytes(),
        "Model": _words(table.model, {None: 0}),
        "FinishReason": _words(table.finish_reason, {None: 0}),
        "Start": table.start_ns.astype(np.uint64).tobytes(),
        "DurationNs": table.duration_ns.astype(np.uint64).tobytes(),
        "TimeToFirstTokenOf": _words(_first_tokens(table), {None: 0}),
        **{name: _unknown(table.known[:, column], np.int64) for name, column in _KNOWN.items()},
        "Weight": table.weights.astype(np.uint32).tobytes(),
        "ColdStart": _unknown(table.known[:, reported.COLD_START], np.uint8),
        "AttributesLeftOut": np.minimum(table.attributes_left_out, _U32)
        .astype(np.uint32)
        .tobytes(),
    }
    for number, stage in enumerate(STAGES):
        written[stage_column(stage)] = table.ledger[:, number].astype(np.uint64).tobytes()
    return native_values.block(
        len(table), [(name, kind, written[name]) for name, kind in TARGET.columns.items()]
    )


def _counted_as(table: LedgerTable, counted_as_ns: Mapping[Key, int], voids: int) -> bytes:
    """When the revision was written that was counted of each, in milliseconds; 0: none was."""
    if not counted_as_ns:
        return bytes(8 * len(table))
    times_ms = [counted_as_ns.get(key, 0) // _MS for key in table.keys[voids:]]
    return np.array([*[0] * voids, *times_ms], np.uint64).tobytes()


def _columns_of_roots(table: LedgerTable) -> dict[str, bytes]:
    """The columns that the requests' own spans decide."""

    def words(tell: Callable[[Root], str | None], before: Mapping[str | None, int]) -> bytes:
        return _words(Words(table.root, [tell(root) for root in table.roots]), before)

    health = np.array([root.health for root in table.roots], np.bool_)
    return {
        "Health": health[table.root].tobytes(),
        "ServiceName": words(lambda root: root.service, {}),
        "ServiceInstance": words(lambda root: root.instance, {None: 0}),
        "ServiceVersion": words(lambda root: root.version, {None: 0}),
        "Route": words(lambda root: root.route, {}),
        "Status": words(lambda root: root.status, {}),
        "Detail": words(lambda root: root.detail, {}),
    }


def _columns_of_lists(table: LedgerTable) -> dict[str, bytes]:
    """Segments, attributes, what held the process up, and repairs."""
    segments = table.segment_first[1:].astype(np.uint64).tobytes()
    attributes = table.attribute_first[1:].astype(np.uint64).tobytes()
    return {
        "Segments.EndNs": segments + table.segment_end_ns.astype(np.uint64).tobytes(),
        "Segments.Stage": _lists(segments, Words(table.segment_stage, STAGES)),
        "Segments.SpanId": segments + _hex_rows(table.segment_span_id.astype(">u8").tobytes(), 8),
        "Segments.Name": _lists(segments, table.segment_name),
        "Attributes.Key": _lists(attributes, table.attribute_key),
        "Attributes.Value": attributes + table.attribute_texts.tobytes(),
        **_after(table),
        **_runtime(table),
        **_repairs(table),
    }


def _after(table: LedgerTable) -> dict[str, bytes]:
    """Work of each after its end."""
    after = table.after
    if after is None:
        after = np.zeros((len(table), len(STAGES)), np.int64)
    of, stage = after.nonzero()  # in order of both
    counts = np.bincount(of, minlength=len(table))
    ends = np.cumsum(counts, dtype=np.uint64).tobytes()
    return {
        "AfterNs": after.sum(axis=1).astype(np.uint64).tobytes(),
        "After.Stage": _lists(ends, Words(stage, STAGES)),
        "After.Ns": ends + after[of, stage].astype(np.uint64).tobytes(),
    }


def _runtime(table: LedgerTable) -> dict[str, bytes]:
    """How long each part of its runtime held each request up."""
    parts: dict[int, Counter[str | None]] = {}
    found = np.flatnonzero(table.segment_stage == _RUNTIME)
    owners = np.searchsorted(table.segment_first, found, side="right") - 1
    lengths = np.diff(table.segment_end_ns, prepend=0)[found]
    # Where a request begins, so does its first segment.
    lengths = np.where(found == table.segment_first[owners], table.segment_end_ns[found], lengths)
    names, codes = table.segment_name.values, table.segment_name.codes[found]
    for owner, code, length_ns in zip(
        owners.tolist(), codes.tolist(), lengths.tolist(), strict=True
    ):
        parts.setdefault(owner, Counter())[names[code]] += length_ns
    ends, names_written = _few(table, parts)
    times_ns = [length_ns for one in parts.values() for length_ns in one.values()]
    return {
        "Runtime.Name": _lists(ends, Words(np.arange(len(names_written)), names_written)),
        "Runtime.Ns": ends + np.array(times_ns, np.uint64).tobytes(),
    }


def _repairs(table: LedgerTable) -> dict[str, bytes]:
    ends, repairs = _few(table, dict(sorted(table.repairs.items())))
    kinds = [one.kind for one in repairs]
    return {
        "Repairs.Kind": _lists(ends, Words(np.arange(len(kinds)), kinds)),
        "Repairs.SpanId": ends + native_values.texts(one.span_id for one in repairs),
        "Repairs.Detail": ends + native_values.texts(one.detail for one in repairs),
    }


def _few(table: LedgerTable, lists: Mapping[int, Collection[T]]) -> tuple[bytes, list[T]]:
    """Where the lists of all requests end, if some have one, and what is in them.

    Args:
        lists: By place, in order.
    """
    counts = np.zeros(len(table), np.uint64)
    for place, listed in lists.items():
        counts[place] = len(listed)
    ends = np.cumsum(counts, dtype=np.uint64).tobytes()
    return ends, [one for listed in lists.values() for one in listed]


def _first_tokens(table: LedgerTable) -> Words:
    of = table.known[:, reported.FIRST_TOKEN_OF]
    codes = np.where(of == reported.UNKNOWN, 0, of)
    return Words(codes, [FIRST_TOKEN_OF.get(code) for code in range(len(FIRST_TOKEN_OF) + 1)])


def _words(words: Words, before: Mapping[str | None, int]) -> bytes:
    return native_values.VERSION + _dictionary(words, before)


def _lists(ends: bytes, words: Words) -> bytes:
    return native_values.VERSION + ends + _dictionary(words, {})


def _dictionary(words: Words, before: Mapping[str | None, int]) -> bytes:
    distinct, places = by_appearance(words.codes, len(words.values))
    found = dict(before)
    of_distinct = [found.setdefault(words.values[code], len(found)) for code in distinct.tolist()]
    keys = [(word or "").encode("utf-8", "surrogateescape") for word in found]
    return b"".join(native_values.dictionary(keys, np.array(of_distinct, np.int64)[places]))


def _unknown(values: NDArray[np.int64], dtype: type[np.number]) -> bytes:
    """Numbers, or none."""
    is_unknown: NDArray[np.bool_] = values == reported.UNKNOWN
    return is_unknown.tobytes() + np.where(is_unknown, 0, values).astype(dtype).tobytes()


def _hex_rows(ids: bytes, size: int) -> bytes:
    digits = np.frombuffer(ids.hex().encode(), np.uint8).reshape(-1, 2 * size)
    rows = np.empty((len(digits), 1 + 2 * size), np.uint8)
    rows[:, 0] = 2 * size
    rows[:, 1:] = digits
    return rows.tobytes()
