"""The numbers of shapes (see `model.span_batch`) by hash, for compiled code to look up."""

import secrets
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from latencytrace.analysis.columns.keys import CODES, KEYS, RULED, THERE
from latencytrace.analysis.columns.shapes import ASKED, ENDS, NO_SHAPE, STARTS, Shapes
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


class HashedShapes(Shapes):
    """Numbers shapes, and finds those of blocks by hash; by any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._known = np.zeros(_SLOTS, np.int64)  # hashes; 0: free
        self._numbers_by_hash = np.zeros(_SLOTS, np.int32)  # and one: another thread may look
        self._hashes = 0
        self._lock = threading.Lock()

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
        """Number the shapes of a block that was decoded the plain way, or by another process."""
        for word in np.unique(block.pairs["key"]).tolist():
            block.words["code"][word] = key_code(block.word_bytes(word))
        self.find(block)

    def _new(self, block: SpanBlock, row: int, found: int) -> int:
        """The number of a shape whose hash is new; it is found by that from now on."""
        if self._hashes >= _MOST_HASHES:
            return NO_SHAPE
        span = block.span(row)
        with self._lock:
            number = self.number(span)
            place = (found >> 20) & (_SLOTS - 1)
            while self._known[place] not in {0, found}:
                place = (place + 1) & (_SLOTS - 1)
            if not self._known[place] and number != NO_SHAPE:
                self._hashes += 1
                self._numbers_by_hash[place] = number + 1
                self._known[place] = found
        return number


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

SHAPES: Final = HashedShapes()
"""Those of this process."""
