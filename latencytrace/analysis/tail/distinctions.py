"""Attributes that separate bad requests from good ones of the same time."""

from collections.abc import Iterator, Sequence

import numpy as np

from latencytrace.analysis.tail.groups import Groups
from latencytrace.analysis.tail.traits import traits
from latencytrace.model import Distinction, Request, semconv
from latencytrace.model.cohorts.breakdown import SetApart
from latencytrace.model.cohorts.request_columns import RequestColumns

LEAST_REQUESTS = 10  # of each kind: of fewer nothing can be said
LEAST_DIFFERENCE = 0.25  # of the two shares
MOST = 3
_MOST_CHARACTERS = 100  # of a name
# They say that a request is bad, which is known; good ones never have them.
_FAILURES = frozenset(
    {
        semconv.ERROR_TYPE, semconv.EXCEPTION_TYPE, semconv.HTTP_RESPONSE_STATUS_CODE,
        semconv.HTTP_STATUS_CODE_OLD, semconv.RPC_RESPONSE_STATUS_CODE,
        semconv.RPC_GRPC_STATUS_CODE_OLD,
    }
)  # fmt: skip


def distinctions(bad: Sequence[Request], good: Sequence[Request]) -> tuple[Distinction, ...]:
    """Compare what bad requests have with what good ones have.

    Args:
        bad: Requests, with their attributes.
        good: Requests of the same time: else what changed meanwhile sets the bad ones apart.

    Returns:
        What sets the tail of a cohort apart is found in the same way (`analysis.tail.traits`),
        where the shares differ clearly; the greatest difference first. Empty: nothing does.
    """
    if min(len(bad), len(good)) < LEAST_REQUESTS:
        return ()
    rows = sorted(
        [*((one, True) for one in bad), *((one, False) for one in good)],
        key=lambda row: row[0].start_ns,
    )
    columns = RequestColumns.of([request for request, _ in rows], attributes=True)
    groups = Groups.of_tail(columns, np.array([is_bad for _, is_bad in rows], np.bool_))
    return tuple(_clear(one.apart for one in traits(groups)))[:MOST]


def _clear(found: Iterator[SetApart]) -> Iterator[Distinction]:
    for one in found:
        is_failure = one.key in _FAILURES or (one.key, one.value) == ("status", "error")
        if not is_failure and one.tail_share_ratio - one.reference_share_ratio >= LEAST_DIFFERENCE:
            yield Distinction(
                trait=_shown(one.key),
                value=_shown(one.value),
                bad_ratio=one.tail_share_ratio,
                good_ratio=one.reference_share_ratio,
            )


def _shown(text: str) -> str:
    """The name of a sender, fit for logs, terminals and messages."""
    if text.isprintable() and len(text) <= _MOST_CHARACTERS:
        return text
    printable = (character if character.isprintable() else "?" for character in text)
    return "".join(printable)[:_MOST_CHARACTERS]
