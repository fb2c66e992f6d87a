"""The numbers of shapes (see `model.span_batch`) by hash, for compiled code to look up."""

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from latencytrace.analysis.columns.keys import CODES, KEYS, RULED, THERE
from latencytrace.analysis.columns.shapes import ASKED, ENDS, MOST_SHAPES, NO_SHAPE, STARTS, Shapes
from latencytrace.analysis.ledger.circumstances import PUT_BACK
from latencytrace.analysis.tokens.counts import FIRST_TOKEN_EVENTS
from latencytrace.analysis.trace.stage_of import CHROMADB_SCOPE
from latencytrace.model import semconv
from latencytrace.service.otlp.compiled.core import core
from latencytrace.service.otlp.span_block import NO_SHAPE as _NO_SHAPE
from latencytrace.service.otlp.span_block import SpanBlock

SEED: Final = secrets.randbits(62)  # so that few can choose texts with one hash
MARK: Final = semconv.CONTENT_REMOVED.encode()
_SLOTS: Final = 1 << 18  # for hashes: compiled code tells more apart than rules do
_MOST_HASHES: Final = _SLOTS // 4
_LAST: Final = 1 << 30  # numbers have 32 bits
RENEWED_NS: Final = 60 * 10**9  # at most so often: each has to learn all shapes again


class HashedShapes(Shapes):
    """Numbers shapes, and finds those of blocks by hash; by any thread.

    Args:
        most: How many; spans of further ones have none.
        first: The number of the first: all before were another's.
    """

    def __init__(self, most: int = MOST_SHAPES, first: int = 0) -> None:
        super().__init__(most)
        self.first = first
        self._known = np.zeros(_SLOTS, np.int64)  # hashes; 0: free
        self._numbers_by_hash = np.zeros(_SLOTS, np.int32)  # and one: another thread may look
        self._hashes = 0
        self._lock = threading.Lock()
        self.is_full = False

    def find(self, block: SpanBlock) -> None:
        """Number the shapes of a block's spans, and count what was removed of them."""
        hashes = np.empty(len(block.table), np.int64)
        unknown = core.shape(
            _ASKED, block.texts, block.words, block.table, block.pairs, block.events, block.links,
            block.scopes, _ROLES, MARK, SEED, self._known, self._numbers_by_hash, hashes,
        )  # fmt: skip
        if not unknown:
            return
        shapes, found = block.table["shape"], {0: NO_SHAPE}
        for row in np.flatnonzero(shapes < _NO_SHAPE).tolist():
            one = int(hashes[row])
            if one not in found:
                found[one] = self._new(block, row, one)
            shapes[row] = found[one]

    def find_anew(self, block: SpanBlock) -> None:
        """Number the shapes of a block that has none of these numbers, unless it has some.

        It was decoded the plain way, by another process, or with the shapes before these.
        """
        shapes = block.table["shape"]
        if not ((shapes < self.first) & (shapes != _NO_SHAPE)).any():
            return
        for word in np.unique(block.pairs["key"]).tolist():
            block.words["code"][word] = key_code(block.word_bytes(word))
        self.find(block)

    def _new(self, block: SpanBlock, row: int, found: int) -> int:
        """The number of a shape whose hash is new; it is found by that from now on."""
        if self.is_full:
            return NO_SHAPE
        span = block.span(row)
        with self._lock:
            number = self.number(span)
            if number == NO_SHAPE or self._hashes >= _MOST_HASHES:
                self.is_full = True
                return NO_SHAPE
            place = (found >> 20) & (_SLOTS - 1)
            while self._known[place] not in {0, found}:
                place = (place + 1) & (_SLOTS - 1)
            if not self._known[place]:
                self._hashes += 1
                self._numbers_by_hash[place] = self.first + number + 1
                self._known[place] = found
        return self.first + number


class RenewedShapes:
    """The shapes of a process. Once they are full, others take their place.

    So a sender of ever new shapes costs others nothing for longer than `RENEWED_NS`. What the
    former numbers stand on is numbered anew when it is attributed.

    Args:
        most: How many there are at one time.
        now_ns: A monotonic clock.
    """

    def __init__(
        self, most: int = MOST_SHAPES, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._most = most
        self._now_ns = now_ns
        self._began_ns = now_ns()
        self._latest = HashedShapes(most)
        self._lock = threading.Lock()

    @property
    def latest(self) -> HashedShapes:
        """The shapes that count from now on."""
        if self._latest.is_full:
            with self._lock:
                self._renew()
        return self._latest

    def _renew(self) -> None:
        full, now_ns = self._latest, self._now_ns()
        if full.is_full and now_ns - self._began_ns >= RENEWED_NS and full.first < _LAST:
            self._began_ns = now_ns
            self._latest = HashedShapes(self._most, full.first + len(full.spans))


def key_code(key: bytes) -> int:
    """The number of a key that the analysis asks for by name; 0 of all others."""
    return _CODES.get(key, 0)


def _asked() -> Any:
    """The texts that rules ask for, as compiled code takes them."""
    lists: Sequence[Sequence[str]] = (
        sorted(ASKED.words), STARTS, ENDS, ASKED.parts, PUT_BACK, sorted(FIRST_TOKEN_EVENTS),
        (CHROMADB_SCOPE,),
    )  # fmt: skip
    exact = {*ASKED.parts, CHROMADB_SCOPE}  # these are compared as they are
    texts = [text if text in exact else text.lower() for one in lists for text in one]
    return core.asked(
        "".join(texts).encode(),
        np.concatenate(([0], np.cumsum([len(text.encode()) for text in texts]))),
        np.concatenate(([0], np.cumsum([len(one) for one in lists]))),
    )


_CODES: Final = {key.encode(): code for key, code in CODES.items()}
_ROLES: Final = np.array([2 if key in RULED else key in THERE for key in KEYS], np.uint8)
_ASKED: Final = None if core is None else _asked()

SHAPES: Final = RenewedShapes()
