"""A ledger adds segments up by stage."""

from latencytrace.model import Segment, Stage
from latencytrace.model.request import ledger_of


def segment(stage: Stage, start_ns: int, end_ns: int) -> Segment:
    return Segment(start_ns=start_ns, end_ns=end_ns, stage=stage, span_id="1", name="span")


def test_segments_of_one_stage_add_up() -> None:
    ledger = ledger_of(
        [
            segment(Stage.DECODE, 0, 10),
            segment(Stage.RESPOND, 10, 15),
            segment(Stage.DECODE, 15, 40),
        ]
    )

    assert ledger == {Stage.DECODE: 35, Stage.RESPOND: 5}


def test_a_stage_without_segments_is_absent() -> None:
    assert ledger_of([]) == {}
