"""A filter of the traces that the store may know; False is certain."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]  # of traces, both halves as one number
_Hashes = NDArray[np.uint64]  # (n, 8), of 32 bits each

FIRST_LAYER_IDS: Final = 1 << 16
LARGEST_LAYER_IDS: Final = 1 << 23
MOST_LAYERS: Final = 10  # with the smaller ones 55 million ids, and 166 MB
_GROWTH: Final = 4
_BITS_AN_ID: Final = 24
_BITS_SET: Final = 8  # of a full layer, one in 24 000 of the unknown ones seems known
_MIXERS: Final = np.array([0x9E3779B97F4A7C15, 0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53], np.uint64)


def ids_of(trace_ids: Iterable[str]) -> Ids:
    """Return trace ids as numbers.

    Args:
        trace_ids: Each of 32 hex digits.
    """
    return mixed(np.frombuffer(bytes.fromhex("".join(trace_ids)), ">u8").reshape(-1, 2))


def mixed(halves: NDArray[np.uint64]) -> Ids:
    """Return one number for both halves (n, 2) of each trace id; either half may be constant."""
    high, low = halves.astype(np.uint64).T
    found: Ids = low ^ (high * _MIXERS[0])
    return found


class SeenTraces:
    """A Bloom filter that grows by layers, each four times as large as the one before.

    It takes three bytes an id. A false positive costs a read from the store. Beyond `most_layers`
    the oldest ids are forgotten: a late span of such a trace begins a new trace. No lock.

    Args:
        largest: Ids in the largest layer; a power of two.
        most_layers: How many layers are kept.
    """

    def __init__(self, largest: int = LARGEST_LAYER_IDS, most_layers: int = MOST_LAYERS) -> None:
        self._largest = largest
        self._most_layers = most_layers
        self._layers = [_Layer(min(FIRST_LAYER_IDS, largest))]

    def add(self, ids: Ids) -> None:
        """Remember traces."""
        hashes = _hashes(ids)
        while len(hashes):
            layer = self._layers[-1]
            if not layer.room:
                layer = _Layer(min(_GROWTH * layer.size, self._largest))
                self._layers.append(layer)
                del self._layers[: -self._most_layers]
            fitting, hashes = hashes[: layer.room], hashes[layer.room :]
            layer.add(fitting)

    def may_hold(self, ids: Ids) -> NDArray[np.bool_]:
        """Return whether each trace may have been added (n,); False is certain."""
        hashes = _hashes(ids)
        found = np.zeros(len(ids), np.bool_)
        for layer in self._layers:
            found |= layer.may_hold(hashes)
        return found


class _Layer:
    """A filter of one size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.room = size  # ids that may still be added
        self._bits = np.uint64(size * _BITS_AN_ID)
        self._words = np.zeros(size * _BITS_AN_ID // 64, np.uint64)

    def add(self, hashes: _Hashes) -> None:
        """Set the bits of ids, at most `room` of them."""
        places = self._places(hashes)
        np.bitwise_or.at(self._words, places >> np.uint64(6), _bit(places))
        self.room -= len(hashes)

    def may_hold(self, hashes: _Hashes) -> NDArray[np.bool_]:
        """Return whether each id may have been added (n,)."""
        places = self._places(hashes)
        found: NDArray[np.bool_] = np.all(
            self._words[places >> np.uint64(6)] & _bit(places) != 0, axis=1
        )
        return found

    def _places(self, hashes: _Hashes) -> NDArray[np.uint64]:
        """Return the bits of each id (n, 8)."""
        found: NDArray[np.uint64] = (hashes * self._bits) >> np.uint64(32)
        return found


def _hashes(ids: Ids) -> _Hashes:
    """Return eight hashes of 32 bits of each id, also where ids are consecutive numbers.

    Double hashing, after Kirsch and Mitzenmacher ("Less hashing, same performance", 2006).
    """
    one = (ids ^ (ids >> np.uint64(33))) * _MIXERS[1]
    one = (one ^ (one >> np.uint64(33))) * _MIXERS[2]
    one ^= one >> np.uint64(33)
    first, step = one[:, np.newaxis], (one >> np.uint64(32))[:, np.newaxis] | np.uint64(1)
    found: _Hashes = (first + step * np.arange(_BITS_SET, dtype=np.uint64)) & _LOW
    return found


_LOW: Final = np.uint64(0xFFFFFFFF)


def _bit(places: NDArray[np.uint64]) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = np.left_shift(np.uint64(1), places & np.uint64(63))
    return found
