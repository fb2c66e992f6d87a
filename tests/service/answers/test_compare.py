"""Sides of a comparison: which requests are counted."""

from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.errors import QuestionError
from latencytrace.model import Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.service.answers.compare import comparison, save_baseline
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store
from tests.service.answers.test_breakdown_parts import store_of
from tests.support.builders.made_requests import START_NS, made_request

NOW_NS = START_NS + 10**9


def in_every_detail() -> Store:
    """A store with a request of each detail, two of which tell nothing of their time."""
    return store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 1000}),
                trace_id=f"{number + 1:032x}",
                detail=detail,
            )
            for number, detail in enumerate(TraceDetail)
        )
    )


def test_a_side_counts_the_requests_that_tell_what_they_spent_their_time_on(
    tmp_path: Path,
) -> None:
    store, baselines = in_every_detail(), Baselines(tmp_path)

    saved = save_baseline(store, baselines, "before", "service=rag", NOW_NS)
    found = comparison(store, baselines, ("baseline:before", "service=rag"), 0.05, NOW_NS)

    assert saved["requests"] == 4
    sides = (found["a"], found["b"])
    assert [(side["requests"], side["compared_requests"]) for side in sides] == [(4, 4), (4, 4)]


def test_no_baseline_is_saved_of_requests_that_tell_nothing(tmp_path: Path) -> None:
    spared = replace(made_request(stages={Stage.DECODE: 1000}), detail=TraceDetail.CONTROL)

    with pytest.raises(QuestionError, match="there is nothing to save"):
        save_baseline(store_of(spared), Baselines(tmp_path), "before", "service=rag", NOW_NS)
