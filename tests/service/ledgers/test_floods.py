"""What a flood of odd spans costs others, and itself, in lines of Python that are run."""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count

import pytest

from latencytrace.service.ledgers.attribution import Attribution
from latencytrace.service.ledgers.span_parts import Parts
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp import traces as otlp
from latencytrace.service.otlp.compiled.core import core
from tests.benchmarks.bench_service import BASE_NS, Pattern
from tests.support.builders.spans.forged_spans import KINDS, body_of, moved
from tests.support.work import lines_run

FLOODED = 500  # spans of a post
SLOWED = 1.1  # times as much work, at most
OWN = 8_000  # lines for one of them: those that are mended go one by one

pytestmark = pytest.mark.skipif(core is None, reason="the plain way goes span by span")


def ordinary() -> Iterator[bytes]:
    """Posts of a sender with nothing odd."""
    pattern, chance = Pattern(0, 512), random.Random(5)
    while True:
        yield from pattern.bodies(chance.getrandbits(64), time.time_ns() - BASE_NS - 500_000_000)


def flood(kind: str) -> Iterator[bytes]:
    for first in count(0, FLOODED):
        numbers = range(first, first + FLOODED)
        yield body_of(moved(KINDS[kind](number), 1) for number in numbers)


def check(body: bytes) -> otlp.CheckedRequest:
    return otlp.check(body, otlp.PROTOBUF, None)


def held(*posts: otlp.CheckedRequest) -> Mapping[str, Parts]:
    return {
        trace_id: [(one.columns, rows)] for one in posts for trace_id, rows in one.rows.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_costs_no_other_sender_more_and_is_cheap(kind: str) -> None:
    attribution = Attribution(Telemetry(), lambda _: False)
    usual, odd = ordinary(), flood(kind)

    def attributing(*posts: otlp.CheckedRequest) -> Callable[[], object]:
        return partial(attribution.attributed, {}, {}, held(*posts))

    for _ in range(3):  # what is read once is known
        attributing(check(next(usual)))()
        attributing(check(next(odd)))()
        attributing(check(next(usual)), check(next(odd)))()

    alone, beside = next(usual), next(usual)
    checked_alone = lines_run(partial(check, alone))
    flooded = lines_run(partial(check, next(odd)))
    checked_beside = lines_run(partial(check, beside))
    own = lines_run(attributing(check(next(odd))))
    divided_alone = lines_run(attributing(check(alone)))
    both = lines_run(attributing(check(beside), check(next(odd))))

    assert checked_beside <= SLOWED * checked_alone
    assert both - own <= SLOWED * divided_alone
    assert flooded + own <= OWN * FLOODED
