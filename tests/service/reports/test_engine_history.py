"""Readings of engines beside the requests that met them."""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from latencytrace.model.cohorts.request_columns import RequestColumns
from latencytrace.service.reports.engine_history import (
    LONGEST_GAP_NS,
    MOST_READINGS,
    MOST_SERIES,
    EngineHistory,
)
from latencytrace.service.reports.engine_readings import Reading
from latencytrace.service.reports.engine_scraper import EngineScraper
from tests.support.builders.made_requests import made_request
from tests.support.fakes.contracts import FakeClock

S = 10**9
MODEL = ("vllm", "m")


class Past:
    """A history, and the clock of the service."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.history = EngineHistory(lambda: self.now_ns)

    def told(
        self, at_s: float, target: str = "a:1", model: tuple[str, str] = MODEL, **read: float
    ) -> None:
        """Note readings at a moment."""
        self.now_ns = round(at_s * S)
        readings = {Reading[name]: value for name, value in read.items()}
        self.history.note(target, model, readings)

    def met(self, *starts_s: float, model: str | None = "m") -> Mapping[str, list[int | None]]:
        """The readings that requests met which began at these moments."""
        columns = self.history.beside(requests(*starts_s, model=model))
        return {
            name: [
                int(value) if known else None
                for value, known in zip(numbers.value, numbers.known, strict=True)
            ]
            for name, numbers in columns.engine.items()
        }


def requests(*starts_s: float, model: str | None = "m") -> RequestColumns:
    one = replace(made_request(), model=model)
    return RequestColumns.of(replace(one, start_ns=round(at * S)) for at in starts_s)


def test_a_request_met_what_its_engine_told_next() -> None:
    past = Past()
    past.told(5, WAITING=3, KV_CACHE_USE=0.5)
    past.told(10, WAITING=7, KV_CACHE_USE=0.934)

    assert past.met(1, 5, 6) == {
        "engine_waiting_requests": [3, 3, 7],
        "engine_kv_cache_use_percent": [50, 50, 93],
    }


def test_a_reading_that_no_number_holds_is_bounded() -> None:
    past = Past()
    past.told(5, WAITING=1e300, RUNNING=-1e300, KV_CACHE_USE=1e300, BATCH_SIZE=math.nan)

    assert past.met(1) == {
        "engine_waiting_requests": [2**53],
        "engine_running_requests": [-(2**53)],
        "engine_kv_cache_use_percent": [100 * 2**53],
    }


def test_what_was_not_told_soon_is_unknown() -> None:
    past = Past()
    past.told(100, WAITING=3)
    gap_s = LONGEST_GAP_NS / S

    assert past.met(100 - gap_s - 1, 100 - gap_s, 101) == {
        "engine_waiting_requests": [None, 3, None]
    }


def test_requests_of_other_models_met_nothing_of_it() -> None:
    past = Past()
    past.told(5, WAITING=3)

    assert past.met(1, model="other") == {}
    assert past.met(1, model=None) == {}


def test_an_engine_that_names_no_model_is_that_of_all_unless_another_names_one() -> None:
    past = Past()
    past.told(5, model=("tgi", ""), WAITING=3)
    alone = past.met(1, model="any")
    past.told(5, model=MODEL, WAITING=1)

    assert alone == {"engine_waiting_requests": [3]}
    assert past.met(1, model="any") == {}


def test_of_several_engines_of_a_model_it_is_the_mean_of_what_is_known() -> None:
    past = Past()
    past.told(5, "a:1", WAITING=2, RUNNING=4)
    past.told(5, "b:1", WAITING=6)

    assert past.met(1) == {"engine_waiting_requests": [4], "engine_running_requests": [4]}


def test_the_oldest_readings_are_forgotten_and_later_ones_stay() -> None:
    past = Past()
    for at_s in range(1, MOST_READINGS + 100):
        past.told(at_s, WAITING=at_s)

    assert past.met(1, MOST_READINGS + 98.5) == {
        "engine_waiting_requests": [None, MOST_READINGS + 99]
    }


def test_of_too_many_models_the_first_are_kept() -> None:
    past = Past()
    for number in range(MOST_SERIES + 1):
        past.told(5, model=("vllm", f"m{number}"), WAITING=1)

    assert past.met(1, model=f"m{MOST_SERIES - 1}")
    assert past.met(1, model=f"m{MOST_SERIES}") == {}


def test_a_clock_that_was_set_back_leaves_readings_out_until_it_is_where_it_was() -> None:
    past = Past()
    past.told(100, WAITING=1)
    past.told(50, WAITING=2)
    past.told(105, WAITING=3)

    assert past.met(45, 99, 101) == {"engine_waiting_requests": [None, 1, 3]}


def test_what_grew_between_two_readings_is_noted_with_them() -> None:
    past = Past()
    text = """
vllm:num_preemptions_total{{model_name="m"}} {preempted}
vllm:prefix_cache_queries_total{{model_name="m"}} {queries}
vllm:prefix_cache_hits_total{{model_name="m"}} {hits}
"""
    texts = iter(
        [
            text.format(preempted=5, queries=1000, hits=900),
            text.format(preempted=9, queries=2000, hits=1150),
        ]
    )
    scraper = EngineScraper(
        ["http://a:1"], lambda _: next(texts), FakeClock(), note=past.history.note
    )
    past.now_ns = 5 * S
    scraper.step()
    past.now_ns = 10 * S
    scraper.step()

    assert past.met(1, 6) == {
        "engine_prefix_cache_hit_percent": [None, 25],
        "engine_preemptions": [None, 4],
    }


@pytest.mark.parametrize("rows", [[], [0, 2]])
def test_some_of_the_requests_keep_what_they_met(rows: list[int]) -> None:
    past = Past()
    past.told(5, WAITING=3)
    past.told(10, WAITING=7)

    columns = past.history.beside(requests(1, 2, 6)).taken(np.array(rows, np.int64))

    assert columns.numbers("engine_waiting_requests").value.tolist() == [3, 7][: len(rows)]
