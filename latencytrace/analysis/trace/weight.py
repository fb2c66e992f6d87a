"""The weight of a request: how many it stands for, where its sender recorded a share of all.

Sources: OpenTelemetry, "TraceState: Probability Sampling" (`ot=th:…`) and its older form
(`ot=p:…`); the attributes of Honeycomb's senders and of Jaeger's clients.
"""

import re
from hashlib import blake2b
from typing import Final

from latencytrace.model import Attributes, semconv

MOST: Final = 1024  # that is believed by default: the least share of our agent's budget
_RANDOM_BITS: Final = 56  # that a threshold is compared with
_ALL: Final = 1 << _RANDOM_BITS
_DIGITS: Final = _RANDOM_BITS // 4
_MEMBER: Final = re.compile(r"(?:^|,)[ \t]*ot=([^,]*)")
_THRESHOLD: Final = re.compile(rf"th:([0-9a-f]{{1,{_DIGITS}}})")
_RANDOMNESS: Final = re.compile(rf"(?:^|;)rv:([0-9a-f]{{{_DIGITS}}})(?:;|$)")
_POWER: Final = re.compile(r"p:([0-9]{1,2})")
_NEVER: Final = 63  # the power that stands for a probability of zero
STATED_IN: Final = frozenset(
    {semconv.SAMPLE_RATE, semconv.SAMPLING_PROBABILITY, semconv.JAEGER_SAMPLER_PARAM}
)


def weight_of(trace_id: str, state: str, attributes: Attributes, most: int = MOST) -> int:
    """Return how many requests one stands for; unknown: itself.

    One over the probability is rounded up for as many traces as its fraction says, chosen by
    their ids: sums of weights are right in the mean, and counts stay whole numbers.

    Args:
        state: The `tracestate` of its own span.
        most: The largest weight that is believed: any caller may state one.
    """
    exact = _of_state(trace_id, state) if state else None
    if exact is None and not STATED_IN.isdisjoint(attributes):
        exact = _of_attributes(attributes)
    if exact is None or exact >= most + 0.5:
        return 1
    whole = int(exact)
    digest = blake2b(trace_id.encode(), digest_size=8).digest()
    return min(whole + (int.from_bytes(digest) < (exact - whole) * 2**64), most)


def _of_state(trace_id: str, state: str) -> float | None:
    """One over the probability that a `tracestate` tells."""
    found = _MEMBER.search(state)
    for entry in found[1].strip().split(";") if found else ():
        if threshold := _THRESHOLD.fullmatch(entry):
            dropped = int(threshold[1].ljust(_DIGITS, "0"), 16)
            stated = _RANDOMNESS.search(found[1].strip()) if found else None
            # Below the threshold no sampler by it has recorded the trace.
            if int(stated[1] if stated else trace_id[-_DIGITS:], 16) < dropped:
                return None
            return _ALL / (_ALL - dropped)
        if (power := _POWER.fullmatch(entry)) and int(power[1]) < _NEVER:
            return float(1 << int(power[1]))
    return None


def _of_attributes(attributes: Attributes) -> float | None:
    rate = _number(attributes, semconv.SAMPLE_RATE)
    if rate is not None and rate >= 1:
        return rate
    share = _number(attributes, semconv.SAMPLING_PROBABILITY)
    if share is None and attributes.get(semconv.JAEGER_SAMPLER_TYPE) == "probabilistic":
        share = _number(attributes, semconv.JAEGER_SAMPLER_PARAM)
    return 1 / share if share is not None and 0 < share <= 1 else None


def _number(attributes: Attributes, key: str) -> float | None:
    value = attributes.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
