"""Values made field by field are those that their class makes one by one."""

from hypothesis import given
from hypothesis import strategies as st

from latencytrace.model import Segment, Stage
from latencytrace.model.from_columns import from_columns

segments = st.builds(
    Segment,
    start_ns=st.integers(),
    end_ns=st.integers(),
    stage=st.sampled_from(list(Stage)),
    span_id=st.text(),
    name=st.text(),
)


@given(st.lists(segments))
def test_they_are_equal(one_by_one: list[Segment]) -> None:
    made = from_columns(
        Segment,
        len(one_by_one),
        start_ns=[one.start_ns for one in one_by_one],
        end_ns=[one.end_ns for one in one_by_one],
        stage=[one.stage for one in one_by_one],
        span_id=[one.span_id for one in one_by_one],
        name=[one.name for one in one_by_one],
    )

    assert made == one_by_one
