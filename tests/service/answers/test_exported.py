"""Tables of ledgers that somebody sends, read back as columns."""

import io

import pyarrow as pa
import pytest
from pyarrow import parquet

from latencytrace.errors import QuestionError
from latencytrace.service.answers.compare import compared_table
from latencytrace.service.store import TableFormat
from tests.support.builders.made_requests import START_NS

MOST = 2**32 - 1  # of the store's column


def table(weight: pa.Array) -> bytes:
    count = len(weight)
    body = io.BytesIO()
    columns = {
        "trace_id": [f"{number + 1:032x}" for number in range(count)],
        "start": pa.array([START_NS] * count, pa.timestamp("ns", tz="UTC")),
        "duration_ns": [1_000] * count,
        "weight": weight,
    }
    parquet.write_table(pa.table(columns), body)
    return body.getvalue()


def test_requests_of_a_table_count_by_their_weights() -> None:
    found = compared_table(table(pa.array([7, None, 0, MOST])), TableFormat.PARQUET)

    assert (found.requests, found.recorded) == (7 + 1 + 1 + MOST, 4)


@pytest.mark.parametrize("weight", [-1, MOST + 1, 2**63 - 1, 0.5, float("nan"), "many"])
def test_a_weight_that_no_request_has_is_refused(weight: object) -> None:
    with pytest.raises(QuestionError, match="it is no table of ledgers"):
        compared_table(table(pa.array([weight, weight])), TableFormat.PARQUET)
