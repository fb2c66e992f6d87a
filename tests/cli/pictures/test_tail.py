"""The picture of a tail."""

from typing import cast

import pytest

from latencytrace.cli.pictures.tail import picture
from latencytrace.model import Stage
from latencytrace.model.cohorts.breakdown import CauseKind
from latencytrace.service.answers.tail_documents import (
    NeighboursDocument,
    StageExcessDocument,
    TailDocument,
)
from latencytrace.service.web.pages.analyses.tail import scale_of
from tests.support.terminal import plain, printed_lines

MS = 1_000_000


def excess(stage: Stage, tail_ms: int, usual_ms: int, of_ms: int) -> StageExcessDocument:
    excess_ns = (tail_ms - usual_ms) * MS
    return StageExcessDocument(
        stage=stage,
        tail_mean_ns=tail_ms * MS,
        reference_mean_ns=usual_ms * MS,
        excess_ns=excess_ns,
        excess_share_ratio=excess_ns / (of_ms * MS),
        low_ns=excess_ns - 20 * MS,
        high_ns=excess_ns + 20 * MS,
    )


def document(**more: object) -> TailDocument:
    whole = TailDocument(
        requests=6000,
        recorded_requests=None,
        quantile=0.99,
        needed_requests=None,
        threshold_ns=900 * MS,
        tail_requests=60,
        reference_requests=1201,
        excess_ns=800 * MS,
        stages=[
            excess(Stage.RETRIEVE, 860, 60, 800),
            excess(Stage.DECODE, 510, 500, 800),
            excess(Stage.EMBED, 10, 20, 800),
            excess(Stage.TOKENIZE, 2, 2, 800),
        ],
        attributes=[
            {
                "key": "collection",
                "value": "manuals",
                "tail_share_ratio": 1.0,
                "reference_share_ratio": 0.049,
                "p_value": 0.0,
            },
            {
                "key": "instance",
                "value": "rag-1",
                "tail_share_ratio": 0.5,
                "reference_share_ratio": 0.3,
                "p_value": 0.0123,
            },
        ],
        cause={
            "kind": CauseKind.DEPENDENCY,
            "stage": Stage.RETRIEVE,
            "key": "collection",
            "value": "manuals",
            "sentence": "Slower dependency: retrieve.",
        },
        neighbours=None,
        examples=["a" * 32],
    )
    return cast(TailDocument, {**whole, **more})


def drawn(found: TailDocument, width: int = 100) -> list[str]:
    console = plain(width)
    return printed_lines(picture(found, console), console)


def test_the_picture_of_a_known_tail_is_exactly_this() -> None:
    assert "\n".join(drawn(document(), 110)) == (
        """\
6,000 requests · tail: 60 beyond p99 (from 900 ms) · 800 ms longer than the 1,201 around the median

Slower dependency: retrieve.

stage                                         excess    share       95 % interval     tail    usual
retrieve  ████████████████████████████████    800 ms  100.0 %     780 ms … 820 ms   860 ms  60.0 ms
decode    ▍                                  10.0 ms    1.2 %  -10.0 ms … 30.0 ms   510 ms   500 ms
embed                                       -10.0 ms   -1.2 %  -30.0 ms … 10.0 ms  10.0 ms  20.0 ms

in the tail more often     tail   usual        p
collection manuals      100.0 %   4.9 %  < 0.001
instance rag-1           50.0 %  30.0 %    0.012

Requests that show it:
  latencytrace trace aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"""
    )


def test_requests_of_senders_that_sample_are_said_to_count_by_weight() -> None:
    lines = drawn(document(recorded_requests=812))

    assert lines[1] == "812 of 6,000 requests were recorded: they count by weight."


def test_a_tail_without_a_cause_is_said_to_have_none() -> None:
    lines = drawn(document(cause=None, attributes=[]))

    assert lines[2].startswith("Nothing sets slow requests apart")
    assert not any("more often" in line for line in lines)


def test_a_tail_without_a_cause_names_the_stage_that_most_of_it_is_in() -> None:
    lines = drawn(document(cause=None, attributes=[]), 200)

    assert lines[2].endswith(
        "Most of it, 100.0 %, is retrieve, which varies this much in all requests."
    )


def test_a_tail_of_several_causes_is_not_said_to_have_nothing_of_its_own() -> None:
    lines = drawn(document(cause=None))

    assert lines[2].startswith("No single cause explains the slow requests")
    assert any("more often" in line for line in lines[3:])


def test_a_name_within_the_cause_makes_no_line_of_its_own() -> None:
    forged = "Slower dependency: retrieve, most of it in \x1b[2Ja\nFORGED"
    cause = {**(document()["cause"] or {}), "sentence": forged}

    said = drawn(document(cause=cause))

    assert not [line for line in said if line.startswith("FORGED")]
    assert any(r"in \x1b[2Ja\nFORGED" in line for line in said)


def test_too_few_requests_are_told_with_how_many_it_takes() -> None:
    lines = drawn(document(requests=37, needed_requests=1000, cause=None, examples=[]))

    assert any(
        "Not enough requests to name a cause: 37 of at least 1,000." in one for one in lines
    )
    assert not any("latencytrace trace" in line for line in lines)
    assert " ".join(lines).find("Take a longer time (--since), or --quantile 0.72.") > 0

    fewer = drawn(document(requests=15, needed_requests=1000, cause=None, examples=[]))
    assert any("Take a longer time (--since)." in line for line in fewer)


def test_a_tail_of_few_requests_has_no_interval() -> None:
    rows = [{**excess(Stage.RETRIEVE, 860, 60, 800), "low_ns": None, "high_ns": None}]
    few = document(requests=37, needed_requests=1000, cause=None, stages=rows)

    (line,) = [line for line in drawn(few) if line.startswith("retrieve")]
    assert line.split()[-5:] == ["-", "860", "ms", "60.0", "ms"]
    assert scale_of(few["stages"]).high == 800 * MS


def test_a_tail_that_takes_no_longer_has_no_stages() -> None:
    lines = drawn(document(stages=[], excess_ns=None, attributes=[], cause=None))

    assert lines[0] == "6,000 requests · tail: 60 beyond p99 (from 900 ms)"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
def test_the_stages_fit_the_terminal_and_keep_their_excess(width: int) -> None:
    lines = drawn(document(), width)

    assert max(map(len, lines)) <= width
    assert any(line.startswith("retrieve") and "800 ms" in line for line in lines)


def test_what_others_in_shared_steps_cost_stands_below_with_whose_work_it_was() -> None:
    beside = NeighboursDocument(
        tail_requests=60,
        reference_requests=80,
        steps=140,
        tail_mean_ns=300 * MS,
        reference_mean_ns=50 * MS,
        excess_ns=250 * MS,
        excess_share_ratio=0.3125,
        low_ns=200 * MS,
        high_ns=300 * MS,
        culprits=[
            {
                "key": "tenant",
                "value": "bulk",
                "cost_share_ratio": 0.9,
                "member_share_ratio": 0.25,
            }
        ],
    )

    said = " ".join(drawn(document(neighbours=beside)))
    by_chance = " ".join(drawn(document(neighbours={**beside, "low_ns": -1})))

    assert "31.2 % of the extra time. tenant bulk: 90.0 % of it, by 25.0 %" in said
    assert "300 ms of a slow request, 50.0 ms of a typical one; that may be" in by_chance
    assert "bulk" not in by_chance
