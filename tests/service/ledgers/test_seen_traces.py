"""A filter that forgets no trace, and seldom knows one that it has not seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.service.ledgers.seen_traces import FIRST_LAYER_IDS, SeenTraces, ids_of, mixed

trace_ids = st.lists(st.integers(1, (1 << 128) - 1).map("{:032x}".format))


@given(st.lists(trace_ids))
def test_what_was_added_is_held(batches: list[list[str]]) -> None:
    seen = SeenTraces()
    for batch in batches:
        seen.add(ids_of(batch))

    assert all(seen.may_hold(ids_of(batch)).all() for batch in batches)


@pytest.mark.parametrize("varies", [0, 1], ids=["first half", "last half"])
def test_ids_that_are_counted_up_are_seldom_taken_for_others(varies: int) -> None:
    halves = np.zeros((5 * FIRST_LAYER_IDS, 2), np.uint64)
    halves[:, varies] = np.arange(len(halves))
    ids = mixed(halves)
    added, others = ids[: 4 * FIRST_LAYER_IDS], ids[4 * FIRST_LAYER_IDS :]
    seen = SeenTraces()

    for batch in np.array_split(added, 7):
        seen.add(batch)

    assert seen.may_hold(added).all()
    assert seen.may_hold(others).mean() < 0.0005


def test_both_forms_of_an_id_are_one_number() -> None:
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    halves = np.array([[int(trace_id[:16], 16), int(trace_id[16:], 16)]], np.uint64)

    assert mixed(halves).tolist() == ids_of([trace_id]).tolist()


def test_the_oldest_are_forgotten_beyond_a_bound() -> None:
    ids = mixed(np.stack([np.arange(4000, dtype=np.uint64)] * 2, axis=1))
    seen = SeenTraces(largest=512, most_layers=3)

    for batch in np.array_split(ids, 9):
        seen.add(batch)

    assert seen.may_hold(ids[-1000:]).all()
    assert seen.may_hold(ids[:2400]).mean() < 0.0005
