"""Consistent probability: which traces are kept, and how a trace says with which probability.

The randomness is the trace id's last 56 bits, or `rv` of the trace state; a trace is kept where
that is not below the threshold, so that services with different probabilities keep the same
traces. Source: OpenTelemetry, "TraceState: Probability Sampling".
"""

import re
from collections.abc import Sequence
from typing import Final

from opentelemetry.trace import TraceState

RANDOM_BITS: Final = 56  # of a trace id, that W3C guarantees
_MASK: Final = (1 << RANDOM_BITS) - 1
_RANDOMNESS: Final = re.compile("rv:[0-9a-f]{14}")
_VENDOR: Final = "ot"  # OpenTelemetry's member of the trace state


def threshold_of(probability: float) -> int:
    """Return the randomness from which on traces are kept."""
    return (1 << RANDOM_BITS) - round(probability * (1 << RANDOM_BITS))


def randomness_of(trace_id: int, state: TraceState | None) -> int:
    """Return the 56 random bits of a trace."""
    stated = _stated(_members(state)) if state else []
    return int(stated[0][3:], 16) if stated else trace_id & _MASK


def kept_with(state: TraceState, threshold: int) -> TraceState:
    """Return the state of a trace that is kept, from which its weight can be read."""
    members = _members(state)
    kept = f"th:{f'{threshold:014x}'.rstrip('0') or '0'}"
    return _with_members(state, [kept, *_stated(members), *_others(members)])


def dropped_with(state: TraceState) -> TraceState:
    """Return the state of a trace that is not kept."""
    members = _members(state)
    return _with_members(state, [*_stated(members), *_others(members)])


def _members(state: TraceState) -> list[str]:
    return [member for member in (state.get(_VENDOR) or "").split(";") if member]


def _stated(members: Sequence[str]) -> list[str]:
    return [member for member in members if _RANDOMNESS.fullmatch(member)]


def _others(members: Sequence[str]) -> list[str]:
    return [member for member in members if not member.startswith(("th:", "rv:"))]


def _with_members(state: TraceState, members: Sequence[str]) -> TraceState:
    if members:
        return (state.update if _VENDOR in state else state.add)(_VENDOR, ";".join(members))
    return state.delete(_VENDOR) if _VENDOR in state else state
