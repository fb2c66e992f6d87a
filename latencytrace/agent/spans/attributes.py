"""Attributes as values that keep nothing of the program alive, within OpenTelemetry's limits."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from numbers import Integral, Real
from typing import cast

from latencytrace.agent.guard import FAULTS, attempted, edge_faults, logger, text_of
from latencytrace.agent.native import RLock
from latencytrace.agent.process.forks import in_child
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.span_limits import UNLIMITED

SCALARS = frozenset((str, int, float, bool, bytes))
MOST_DEFERRED = 8  # attributes at once
_MAX_DEPTH = 8  # of nested attribute values
_MAX_ITEMS = 1024  # of one sequence or mapping
_ARRAYS = (list, tuple, set, frozenset, deque, range, bytearray)
# Types with a short text as their value: dates, identifiers, paths, members.
_SAID_AS_TEXT = frozenset(
    ("datetime", "decimal", "enum", "fractions", "ipaddress", "pathlib", "pathlib._local", "uuid")
)
_UNUSABLE = object()
_unusable_types: set[type] = set()
Attributes = Callable[[], Mapping[str, AttributeValue]]
_working = RLock()  # one for all: hardly ever do two threads ask
_OURS = "latencytrace."  # a ledger needs them whatever else a program notes


class Deferred:
    """Attributes of an ended span that are worked out when it is sent, off the serving thread.

    It stands among a span's attributes in the place that they will have.

    Args:
        weight: About how many bytes it keeps.
    """

    __slots__ = ("_attributes", "_found", "weight")

    def __init__(self, attributes: Attributes, weight: int) -> None:
        self._attributes: Attributes | None = attributes
        self._found: Mapping[str, AttributeValue] = {}
        self.weight = weight

    @property
    def pending(self) -> Attributes | None:
        """The function that works them out; None: that is done."""
        return self._attributes

    def attributes(self) -> Mapping[str, AttributeValue]:
        """Work them out, once, whichever threads ask."""
        with _working:
            if self._attributes is not None:
                try:
                    self._found = self._attributes()
                except FAULTS as fault:
                    edge_faults("working out attributes", fault)
                self._attributes = None
            return self._found


def worked_out(attributes: dict[str, AttributeValue]) -> dict[str, AttributeValue]:
    """Return attributes and the deferred ones; the same if none were deferred."""
    values: Mapping[str, object] = attributes
    if not any(type(value) is Deferred for value in values.values()):
        return attributes
    found: dict[str, object] = {}
    for key, value in values.items():
        found.update(value.attributes() if isinstance(value, Deferred) else {key: value})
    return cast("dict[str, AttributeValue]", found)


def _after_fork() -> None:
    global _working  # noqa: PLW0603 - the parent may have held it
    _working = RLock()


in_child(_after_fork)


def copied_attributes(attributes: Mapping[str, object]) -> dict[str, AttributeValue]:
    """Attributes copied: scalars as they are, sequences as tuples, mappings as dicts.

    A value of any other type (a tensor, say) is left out, and its type is logged once;
    so is one with code that raises.
    """
    if type(attributes) is dict:
        attributes = attributes.copy()  # at once: another thread may be changing it
        if SCALARS.issuperset(map(type, attributes.values())):
            return attributes
    copied = attempted(lambda: _copied_pairs(attributes, 0), otherwise=None)
    if copied is None:
        _leave_out(attributes)
        return {}
    return {
        key: cast("AttributeValue", value) for key, value in copied.items() if value is not None
    }


def limited(
    attributes: Mapping[str, AttributeValue], count: int, length: int
) -> tuple[Mapping[str, AttributeValue], int]:
    """Attributes within the limits, and how many were left out: the oldest, as in the SDK."""
    kept = {key: value for key, value in attributes.items() if key}
    while len(kept) > count:
        drop_oldest(kept)
    dropped = len(attributes) - len(kept)
    if length < UNLIMITED:
        kept = {key: cast("AttributeValue", _cut(value, length)) for key, value in kept.items()}
    return kept, dropped


def drop_oldest(attributes: dict[str, AttributeValue]) -> None:
    """Leave out the attribute that was set first, of those that are not ours if there are any.

    One without a key goes before all others, since it is never sent.
    """
    if "" in attributes:
        del attributes[""]
        return
    oldest = next((key for key in attributes if not text_of(key).startswith(_OURS)), None)
    del attributes[next(iter(attributes)) if oldest is None else oldest]


def _copied_pairs(attributes: Mapping[str, object], depth: int) -> dict[str, object]:
    pairs = list(attributes.items())[: _MAX_ITEMS if depth else None]
    copied = ((text_of(key), _copied(value, depth)) for key, value in pairs)
    # An empty key says nothing; the span's own are counted where limits are.
    return {key: value for key, value in copied if value is not _UNUSABLE and (key or not depth)}


def _copied(value: object, depth: int) -> object:
    if value is None or type(value) in SCALARS:
        return value
    copied = attempted(lambda: _converted(value, depth), otherwise=_UNUSABLE)
    if copied is _UNUSABLE:
        _leave_out(value)
    return copied


def _converted(value: object, depth: int) -> object:  # noqa: PLR0911 - one case a type
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, str):
        return str.__str__(value)  # of an enum its value, which `str` may not say
    if isinstance(value, Integral):  # an enum, a numpy number
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        return _copied_pairs(value, depth + 1)
    if depth < _MAX_DEPTH and isinstance(value, _ARRAYS):
        items = list(islice(cast("Iterable[object]", value), _MAX_ITEMS))
        copied = (_copied(item, depth + 1) for item in items)
        return tuple(item for item in copied if item is not _UNUSABLE)
    return _of_known_type(value)


def _of_known_type(value: object) -> object:
    """A value that a library says in one word, as it says it."""
    modules = {base.__module__ for base in type(value).__mro__}
    if "numpy" in modules and type(value).__name__ in {"bool", "bool_"}:
        return bool(value)
    return str(value) if modules & _SAID_AS_TEXT else _UNUSABLE


def _leave_out(value: object) -> None:
    if type(value) not in _unusable_types:
        _unusable_types.add(type(value))
        logger.warning("an attribute of type %s is left out (logged once)", type(value))


def _cut(value: object, length: int) -> object:
    match value:
        case str():
            return value[:length]
        case tuple():
            return tuple(_cut(item, length) for item in value)
        case Mapping():
            return {key: _cut(item, length) for key, item in value.items()}
        case _:
            return value
