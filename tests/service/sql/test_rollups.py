"""Which questions rollups can answer."""

import pytest

from latencytrace.model import RequestStatus
from latencytrace.model.detail import TraceDetail
from latencytrace.service.cohort import Cohort, Filters
from latencytrace.service.sql.rollups import is_by_labels

LABELS = {"service", "route", "model", "version", "instance", "status", "detail"}
WANTED = {
    "status": RequestStatus.OK,
    "detail": TraceDetail.FULL,
    **dict.fromkeys(("duration", "first_token", "after"), "1s.."),
    **dict.fromkeys(("input_tokens", "output_tokens"), "1.."),
    **dict.fromkeys(("where", "without"), "tenant=acme"),
}


@pytest.mark.parametrize("name", Filters.model_fields)
def test_rollups_answer_questions_by_labels_alone(name: str) -> None:
    cohort = Cohort.model_validate({name: WANTED.get(name, "a")})

    assert is_by_labels(cohort) == (name in LABELS)
