"""About how many bytes an ended span keeps in memory."""

from collections.abc import Mapping
from typing import Final

from latencytrace.agent.spans.span import RecordedSpan

_SPAN: Final = 500
_VALUE: Final = 60


def weight_of(span: RecordedSpan) -> int:
    """The span with its attributes, events and links; strings and bytes count in full."""
    weight = _SPAN
    if span.own:
        weight += _mapping(span.own)
    if span.extra is not None:
        weight += sum(_SPAN + _mapping(attributes) for _, _, attributes in span.extra.events)
        weight += sum(_SPAN + _mapping(attributes) for _, attributes in span.extra.links)
    return weight


def _mapping(attributes: Mapping[str, object]) -> int:
    weight = _VALUE * len(attributes)
    for value in attributes.values():
        if type(value) is str or type(value) is bytes:
            weight += len(value)
        elif type(value) is tuple or type(value) is dict:
            weight += _container(value)
    return weight


def _container(value: object) -> int:
    match value:
        case str() | bytes():
            return _VALUE + len(value)
        case tuple():
            return _VALUE + sum(map(_container, value))
        case dict():
            return _VALUE + sum(map(_container, value)) + sum(map(_container, value.values()))
        case _:
            return _VALUE
