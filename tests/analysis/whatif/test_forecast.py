"""Forecasts of a cohort's quantiles, and how far such forecasts were off."""

from dataclasses import replace

import numpy as np
import pytest

from latencytrace.analysis.whatif import Replayed, back_test, forecast
from latencytrace.model import Stage
from latencytrace.model.cohorts.request_columns import Durations
from tests.support.simulation.cohorts import System, cohort

STEADY = System(noise=0.02)


def test_a_sample_stands_for_its_cohort() -> None:
    random = np.random.default_rng(1)
    durations_ns = (1e8 * np.exp(random.normal(0, 0.5, 50_000))).astype(np.int64)
    edge_ns = np.quantile(durations_ns, 0.95)
    body, tail = durations_ns[durations_ns <= edge_ns], durations_ns[durations_ns > edge_ns]
    sample = [
        Replayed(duration_ns=int(one), replayed_ns=0.8 * one, weight=len(part) / 200)
        for part in (body, tail)
        for one in random.choice(part, 200)
    ]

    found = forecast(Durations(ns=durations_ns), sample)

    assert found == pytest.approx(0.8 * np.quantile(durations_ns, (0.5, 0.95, 0.99)))


def test_the_back_test_is_small_where_a_stage_varies_by_itself() -> None:
    columns = cohort(np.random.default_rng(1), STEADY, 10_000)

    error = back_test(columns, Stage.RETRIEVE, 1.0)

    assert error is not None
    assert error < 0.03


def test_the_back_test_is_large_where_a_faster_stage_gives_nothing() -> None:
    columns = cohort(np.random.default_rng(1), replace(STEADY, retrieve_ms=300), 10_000)

    right, wrong = (back_test(columns, Stage.RETRIEVE, gained) for gained in (1.0, 0.0))

    assert right is not None
    assert wrong is not None
    assert wrong > 5 * right


@pytest.mark.parametrize(
    ("requests", "stage"), [(150, Stage.RETRIEVE), (0, Stage.RETRIEVE), (2_000, Stage.TOOL)]
)
def test_without_enough_requests_that_have_the_stage_there_is_no_back_test(
    requests: int, stage: Stage
) -> None:
    columns = cohort(np.random.default_rng(1), STEADY, requests)

    assert back_test(columns, stage, 1.0) is None
