"""Traces that the store may know: a filter that is sure of the others."""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.uint64]  # of traces, both halves as one number

FIRST_LAYER_IDS: Final = 1 << 16
LARGEST_LAYER_IDS: Final = 1 << 22
MOST_LAYERS: Final = 20  # with the smaller ones 60 million ids, and 120 MB
_BITS_AN_ID: Final = 16  # with four of them set, one in 420 of the unknown ones seems known
_MIXERS: Final = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)


def ids_of(trace_ids: Iterable[str]) -> Ids:
    """Trace ids as numbers.

    Args:
        trace_ids: Of 32 hex digits each.
    """
    return mixed(np.frombuffer(bytes.fromhex("".join(trace_ids)), ">u8").reshape(-1, 2))


def mixed(halves: NDArray[np.uint64]) -> Ids:
    """Both halves (n, 2) of trace ids as one number each; either may be the same in all."""
    high, low = halves.astype(np.uint64).T
    found: Ids = low ^ (high * _MIXERS[0])
    return found


class SeenTraces:
    """A Bloom filter that grows by layers, each for twice the ids of the one before.

    It takes two bytes an id. Beyond the most layers the ids of the oldest are forgotten: a span
    that still comes for one of those traces is taken for that of a new trace. No lock.

    Args:
        largest: The ids of a layer that the next one is not larger than; a power of two.
        most_layers: How many there are.
    """

    def __init__(self, largest: int = LARGEST_LAYER_IDS, most_layers: int = MOST_LAYERS) -> None:
        self._largest = largest
        self._most_layers = most_layers
        self._layers = [_Layer(min(FIRST_LAYER_IDS, largest))]

    def add(self, ids: Ids) -> None:
        """Remember traces."""
        while len(ids):
            layer = self._layers[-1]
            if not layer.room:
                layer = _Layer(min(2 * layer.size, self._largest))
                self._layers.append(layer)
                del self._layers[: -self._most_layers]
            fitting, ids = ids[: layer.room], ids[layer.room :]
            layer.add(fitting)

    def may_hold(self, ids: Ids) -> NDArray[np.bool_]:
        """Whether each trace may have been added; False is certain."""
        found = np.zeros(len(ids), np.bool_)
        for layer in self._layers:
            found |= layer.may_hold(ids)
        return found


class _Layer:
    """A filter of one size."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.room = size  # ids that may still be added
        bits = size * _BITS_AN_ID
        self._words = np.zeros(bits // 64, np.uint64)
        self._shift = np.uint64(64 - (bits.bit_length() - 1))  # a power of two

    def add(self, ids: Ids) -> None:
        """Set the bits of ids; no more than there is room for."""
        places = self._places(ids)
        np.bitwise_or.at(self._words, places >> np.uint64(6), _bit(places))
        self.room -= len(ids)

    def may_hold(self, ids: Ids) -> NDArray[np.bool_]:
        """See `SeenTraces.may_hold`."""
        places = self._places(ids)
        found: NDArray[np.bool_] = np.all(
            self._words[places >> np.uint64(6)] & _bit(places) != 0, axis=1
        )
        return found

    def _places(self, ids: Ids) -> NDArray[np.uint64]:
        """The bits of each id (n, 4); ids are often counted up rather than drawn by chance."""
        spread = (ids ^ (ids >> np.uint64(32)))[:, np.newaxis] * _MIXERS
        found: NDArray[np.uint64] = (spread ^ (spread >> np.uint64(29))) * _MIXERS[
            0
        ] >> self._shift
        return found


def _bit(places: NDArray[np.uint64]) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = np.left_shift(np.uint64(1), places & np.uint64(63))
    return found
