"""Statistics by weight, held against those of each request as often as its weight says."""

import numpy as np
import pytest

from latencytrace.analysis import weighted

CHANCE = np.random.default_rng(1)
VALUES = CHANCE.integers(0, 1000, 300)
WEIGHT = CHANCE.choice([1, 3, 40], 300)
EACH = np.repeat(VALUES, WEIGHT)


def test_by_weight_is_as_if_each_stood_there_as_often() -> None:
    assert weighted.number(len(VALUES), WEIGHT) == len(EACH)
    assert float(weighted.mean(VALUES, WEIGHT)) == pytest.approx(EACH.mean())
    ranks = [0, 7, len(EACH) // 2, len(EACH) - 1]
    assert weighted.at_ranks(VALUES, ranks, WEIGHT) == weighted.at_ranks(EACH, ranks, None)
    levels = (0.0, 0.01, 0.5, 0.99, 1.0)
    found = weighted.quantiles(VALUES, levels, WEIGHT)
    assert found.tolist() == np.quantile(EACH, levels, method="inverted_cdf").tolist()


def test_without_weights_it_is_the_plain_answer() -> None:
    assert weighted.number(3, None) == weighted.effective(3, None) == 3
    assert weighted.of(np.array([0]), None) is None
    assert weighted.quantiles(VALUES, 0.37, None) == np.quantile(VALUES, 0.37)
    assert weighted.mean(VALUES, None) == VALUES.mean()


def test_those_of_equal_weight_say_as_much_as_their_number_and_unequal_ones_less() -> None:
    assert weighted.effective(50, np.full(50, 1000)) == pytest.approx(50)
    assert weighted.effective(101, np.append(np.ones(100), 100)) == pytest.approx(200**2 / 10_100)
    assert weighted.effective(0, np.empty(0)) == 0
