"""The beginning of a burn is found behind incidents that were over before."""

import numpy as np
import pytest

from latencytrace.analysis.slo.over_time import burning_since

CALM_SLOTS = 15


def found(*parts: tuple[int, int, int]) -> int | None:
    """Look through slots: so many, each with so many bad of so many requests."""
    bad = np.concatenate([np.full(slots, of_slot) for slots, of_slot, _ in parts])
    total = np.concatenate([np.full(slots, of_slot) for slots, _, of_slot in parts])
    return burning_since(bad, total, 0.144, CALM_SLOTS)


@pytest.mark.parametrize("share", [2, 5, 10])
def test_it_is_the_first_slot_of_the_step(share: int) -> None:
    assert found((200, 0, 10), (60, share, 10)) == 200


def test_an_incident_before_a_calm_stretch_is_another_one() -> None:
    assert found((100, 0, 10), (50, 10, 10), (20, 0, 10), (30, 10, 10)) == 170


def test_a_breath_is_no_end_of_an_incident() -> None:
    assert found((100, 0, 10), (50, 10, 10), (5, 0, 10), (30, 10, 10)) == 100


def test_silence_does_not_part_an_incident() -> None:
    assert found((100, 0, 10), (50, 10, 10), (40, 0, 0), (30, 10, 10)) == 100


def test_few_requests_far_apart_still_have_a_beginning() -> None:
    sparse = [(1, 0, 1), (9, 0, 0)] * 10 + [(1, 1, 1), (9, 0, 0)] * 5

    assert found(*sparse) == 100


def test_what_is_usually_bad_does_not_begin_it() -> None:
    assert found((100, 0, 100), (1, 2, 100), (80, 0, 100), (30, 50, 100)) == 181


def test_without_a_bad_request_there_is_none() -> None:
    assert found((100, 0, 10)) is None
    assert burning_since(np.zeros(0, np.int64), np.zeros(0, np.int64), 0.1, CALM_SLOTS) is None
