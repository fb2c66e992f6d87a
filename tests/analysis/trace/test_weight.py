"""How many requests one stands for whose sender records a share of all."""

from random import Random

import pytest
from opentelemetry.trace import TraceState

from latencytrace.agent.spans.probability import kept_with, threshold_of
from latencytrace.analysis.trace.weight import MOST, weight_of
from latencytrace.model import Attributes, semconv

LAST = "f" * 14  # of all traces the last ones that a threshold drops
IDS = [f"{number:018x}{LAST}" for number in range(1, 4001)]


def mean_weight(state: str, attributes: Attributes, most: int = MOST) -> float:
    weights = [weight_of(trace_id, state, attributes, most) for trace_id in IDS]
    assert max(weights) - min(weights) <= 1
    return sum(weights) / len(IDS)


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3, 0.1, 0.017, 0.001])
def test_what_our_agent_writes_is_read_as_one_over_its_share(share: float) -> None:
    state = kept_with(TraceState(), threshold_of(share)).to_header()

    assert mean_weight(state, {}) == pytest.approx(1 / share, abs=0.05)


@pytest.mark.parametrize(
    ("state", "weight"),
    [
        ("", 1),
        ("ot=th:0", 1),
        ("ot=th:8", 2),  # the specification's examples: 50 %, 25 %, 10 %, 1 %
        ("ot=th:c", 4),
        ("ot=th:e6666666666666", 10),
        ("ot=th:fd70a3d70a3d71", 100),
        ("dd=s:1,ot=rv:c23456789abcde;th:c", 4),
        ("es=s:0.1, ot=th:c", 4),
        ("ot=p:3;r:4", 8),
        ("ot=p:63", 1),  # never: nobody can have recorded it
        ("ot=th:fffffffffffffff", 1),  # too long
        ("ot=th:xyz", 1),
        ("not=th:c", 1),
        ("ot=th:ffc", 1024),  # the least share of our agent's budget
        ("ot=th:ffe", 1),  # more than is believed
        ("ot=th:ffffffffffffff", 1),
        ("ot=p:62", 1),
    ],
)
def test_thresholds_and_powers_are_read(state: str, weight: int) -> None:
    assert mean_weight(state, {}) == pytest.approx(weight, rel=1e-6)


@pytest.mark.parametrize(
    ("attributes", "weight"),
    [
        ({semconv.SAMPLE_RATE: 20}, 20),
        ({semconv.SAMPLE_RATE: 1}, 1),
        ({semconv.SAMPLE_RATE: 0}, 1),
        ({semconv.SAMPLE_RATE: "20"}, 1),
        ({semconv.SAMPLE_RATE: True}, 1),
        ({semconv.SAMPLE_RATE: float("nan")}, 1),
        ({semconv.SAMPLE_RATE: float("inf")}, 1),
        ({semconv.SAMPLING_PROBABILITY: 0.25}, 4),
        ({semconv.SAMPLING_PROBABILITY: 0}, 1),
        ({semconv.SAMPLING_PROBABILITY: 2.0}, 1),
        ({semconv.SAMPLING_PROBABILITY: 5e-324}, 1),
        ({semconv.JAEGER_SAMPLER_TYPE: "probabilistic", semconv.JAEGER_SAMPLER_PARAM: 0.1}, 10),
        ({semconv.JAEGER_SAMPLER_TYPE: "ratelimiting", semconv.JAEGER_SAMPLER_PARAM: 0.1}, 1),
    ],
)
def test_attributes_of_others_are_read(attributes: Attributes, weight: int) -> None:
    assert mean_weight("", attributes) == pytest.approx(weight)


@pytest.mark.parametrize(
    ("state", "last", "weight"),
    [
        ("ot=th:c", "c" + "0" * 13, 4),
        ("ot=th:c", "b" + LAST[1:], 1),  # whoever samples by it has not recorded that
        ("ot=th:c;rv:c0000000000000", "0" * 14, 4),  # its own randomness comes first
        ("ot=rv:bfffffffffffff;th:c", LAST, 1),
        ("ot=rv:c;th:c", "0" * 14, 1),  # that is none
        ("dd=rv:ffffffffffffff,ot=th:c", "0" * 14, 1),
        ("ot=th:0", "0" * 14, 1),
    ],
)
def test_a_threshold_is_believed_where_its_sampler_can_have_recorded_the_trace(
    state: str, last: str, weight: int
) -> None:
    assert weight_of("1" * 18 + last, state, {}) == weight


@pytest.mark.parametrize(
    ("rate", "most", "mean"), [(7, 7, 7), (8, 7, 1), (2, 1, 1), (1.2, 1, 1), (7.4, 7, 7)]
)
def test_a_weight_above_the_largest_believed_is_unknown(
    rate: float, most: int, mean: float
) -> None:
    assert mean_weight("", {semconv.SAMPLE_RATE: rate}, most) == mean
    assert mean_weight("ot=th:ffffffffffffff", {semconv.SAMPLE_RATE: 2}, most) == 1


def test_the_state_wins_over_attributes() -> None:
    assert weight_of(IDS[0], "ot=th:8", {semconv.SAMPLE_RATE: 20}) == 2


def test_whole_weights_add_up_to_the_population() -> None:
    chance = Random(7)
    share = 0.3
    threshold = threshold_of(share)
    state = kept_with(TraceState(), threshold).to_header()
    ids = [chance.getrandbits(128) for _ in range(40_000)]
    kept = [f"{one:032x}" for one in ids if one & ((1 << 56) - 1) >= threshold]

    # Of what is kept, weights vary by a part of one: the count is as good as the sample.
    assert sum(weight_of(one, state, {}) for one in kept) == pytest.approx(
        len(kept) / share, rel=0.005
    )
    assert sum(weight_of(one, state, {}) for one in kept) == pytest.approx(len(ids), rel=0.03)
