"""The document of a tail, and the sentence that names its cause."""

from itertools import accumulate

import orjson
import pytest
from pydantic import TypeAdapter

from latencytrace.model import Request, Segment, Stage
from latencytrace.model.cohorts.breakdown import Cause, CauseKind, SetApart, StageExcess, Tail
from latencytrace.service.answers.sentences.tail import NAME_IT, next_step, sentence, trait_text
from latencytrace.service.answers.tail import tail, tail_document
from latencytrace.service.answers.tail_documents import TailDocument
from latencytrace.service.cohort import Cohort
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.fakes.listed_requests import store_of

MS = 1_000_000


def excess(stage: Stage, tail_ms: float, usual_ms: float) -> StageExcess:
    grown_ns = (tail_ms - usual_ms) * MS
    return StageExcess(
        stage=stage,
        tail_mean_ns=tail_ms * MS,
        reference_mean_ns=usual_ms * MS,
        low_ns=grown_ns - 0.4,
        high_ns=grown_ns + 0.4,
    )


def apart(key: str, value: str) -> SetApart:
    return SetApart(
        key=key, value=value, tail_share_ratio=0.9, reference_share_ratio=0.1, p_value=1e-9
    )


def of_cause(cause: Cause | None, *stages: StageExcess) -> Tail:
    return Tail(
        requests=2000,
        recorded_requests=2000,
        quantile=0.99,
        needed_requests=None,
        threshold_ns=900 * MS,
        tail_requests=20,
        reference_requests=401,
        stages=stages,
        attributes=(),
        cause=cause,
        examples=("a" * 32,),
    )


def test_excesses_add_up_to_that_of_the_durations() -> None:
    stages = (excess(Stage.RETRIEVE, 900, 100), excess(Stage.DECODE, 480, 500))

    document = tail_document(of_cause(None, *stages))

    TypeAdapter(TailDocument).validate_json(orjson.dumps(document), strict=True)
    assert document["excess_ns"] == sum(one["excess_ns"] for one in document["stages"])
    assert [one["excess_share_ratio"] for one in document["stages"]] == [
        pytest.approx(800 / 780),
        pytest.approx(-20 / 780),
    ]
    assert document["cause"] is None


def test_a_tail_that_takes_no_longer_has_no_shares() -> None:
    document = tail_document(of_cause(None, excess(Stage.DECODE, 500, 500)))

    assert document["stages"][0]["excess_share_ratio"] is None


@pytest.mark.parametrize(
    ("kind", "stage", "trait", "begins"),
    [
        (CauseKind.STAGE, Stage.PREFILL, None, "Slower prefill: "),
        (CauseKind.STAGE, Stage.UNATTRIBUTED, None, "More time that no span explains: "),
        (CauseKind.INPUT, Stage.PREFILL, apart("input_tokens", "over 4000"), "Longer input: "),
        (CauseKind.INPUT, Stage.DECODE, apart("output_tokens", "over 900"), "Longer output: "),
        (
            CauseKind.INPUT,
            Stage.PREFILL,
            apart("cached_input_tokens", "at most 0"),
            "Less input cached: ",
        ),
        (CauseKind.WAITING, Stage.QUEUE, None, "They waited behind other requests: "),
        (CauseKind.INSTANCE, Stage.DECODE, apart("instance", "pod-3"), "One bad instance: "),
        (CauseKind.RUNTIME, Stage.RUNTIME, None, "Runtime pause: "),
        (CauseKind.COLD_START, Stage.LOAD, apart("cold_start", "true"), "Cold start: "),
        (CauseKind.DEPENDENCY, Stage.RETRIEVE, None, "Slower dependency: "),
        (CauseKind.DEPENDENCY, Stage.NETWORK, None, "Slower call: "),
    ],
)
def test_a_sentence_names_the_cause_its_stage_and_its_trait(
    kind: CauseKind, stage: Stage, trait: SetApart | None, begins: str
) -> None:
    cause = Cause(kind=kind, stage=stage, trait=trait)

    document = tail_document(of_cause(cause, excess(stage, 912, 0.1)))

    told = document["cause"]
    assert told is not None
    shared = (
        f"90.0 % of slow requests have {trait_text(trait.key, trait.value)}, "
        "10.0 % of typical ones; "
        if trait
        else ""
    )
    grown = f"{stage} takes 912 ms instead of 100 µs, 100.0 % of the extra time."
    assert told["sentence"] == f"{begins}{shared}{grown}"
    assert (told["kind"], told["stage"]) == (kind, stage)
    assert (told["key"], told["value"]) == ((trait.key, trait.value) if trait else (None, None))


def ranked(number: int, *lengths_ms: int) -> Request:
    """A request of two stages of the user's own, and of decoding."""
    names = ("rank_rules", "fetch user", "decode")
    stages = (Stage.APPLICATION, Stage.APPLICATION, Stage.DECODE)
    ends_ns = list(accumulate(length * MS + number for length in lengths_ms))
    segments = tuple(
        Segment(start_ns=start_ns, end_ns=end_ns, stage=stage, span_id="1" * 16, name=name)
        for start_ns, end_ns, stage, name in zip(
            (0, *ends_ns), ends_ns, stages, names, strict=False
        )
    )
    return made_request(
        trace_id=f"{number + 1:032x}",
        start_ns=START_NS + number,
        duration_ns=ends_ns[-1],
        segments=segments,
        ledger={Stage.APPLICATION: ends_ns[1], Stage.DECODE: ends_ns[2] - ends_ns[1]},
    )


@pytest.mark.parametrize(
    ("usual_ms", "slow_ms", "named"),
    [
        ((20, 20, 50), (400, 20, 50), "rank_rules"),
        ((300, 20, 50), (300, 270, 50), "fetch user"),
    ],
    ids=["it alone", "not what is long in all"],
)
def test_the_users_own_stage_that_grew_most_is_named(
    usual_ms: tuple[int, ...], slow_ms: tuple[int, ...], named: str
) -> None:
    requests = [ranked(number, *(usual_ms if number % 10 else slow_ms)) for number in range(400)]

    cause = tail(store_of(*requests), Cohort(), 0.95)["cause"]

    assert cause is not None
    assert cause["stage"] == Stage.APPLICATION
    assert cause["sentence"].endswith(f"of the extra time, most of it in {named}.")


def called(number: int, lengths_ms: tuple[int, int]) -> Request:
    """A request that nobody explains a part of, in its own service and in one it calls."""
    first_ns, second_ns = (length * MS + number for length in lengths_ms)
    return made_request(
        trace_id=f"{number + 1:032x}",
        start_ns=START_NS + number,
        duration_ns=first_ns + second_ns,
        segments=tuple(
            Segment(
                start_ns=start_ns,
                end_ns=end_ns,
                stage=Stage.UNATTRIBUTED,
                span_id=span_id * 16,
                name=name,
            )
            for start_ns, end_ns, span_id, name in (
                (0, first_ns, "1", "POST /chat"),
                (first_ns, first_ns + second_ns, "2", "GET /policy"),
            )
        ),
        ledger={Stage.UNATTRIBUTED: first_ns + second_ns},
    )


def test_the_span_that_most_of_any_other_stage_grew_in_is_named() -> None:
    requests = [called(number, (20, 10 if number % 10 else 400)) for number in range(400)]

    cause = tail(store_of(*requests), Cohort(), 0.95)["cause"]

    assert cause is not None
    assert cause["sentence"].endswith("the extra time, most of it in GET /policy.")


@pytest.mark.parametrize(
    ("stage", "is_advised"), [(Stage.UNATTRIBUTED, True), (Stage.DECODE, False)], ids=str
)
def test_how_to_name_time_that_no_span_explains_is_said(stage: Stage, *, is_advised: bool) -> None:
    cause = Cause(kind=CauseKind.STAGE, stage=stage, trait=None)

    document = tail_document(of_cause(cause, excess(stage, 900, 100)))

    assert (next_step(document) == NAME_IT) is is_advised


def test_the_only_span_of_a_stage_is_not_named() -> None:
    requests = [
        made_request(
            trace_id=f"{number + 1:032x}",
            start_ns=START_NS + number,
            stages={Stage.DECODE: (50 if number % 10 else 500) * MS + number},
        )
        for number in range(400)
    ]

    cause = tail(store_of(*requests), Cohort(), 0.95)["cause"]

    assert cause is not None
    assert cause["sentence"].endswith("of the extra time.")


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("batch_size", "over 7", "batch size over 7"),
        ("latencytrace.batch.size", "8", "batch size 8"),
        ("engine_kv_cache_use_percent", "over 93", "engine kv cache use percent over 93"),
        ("cold_start", "true", "a cold start"),
        ("my_tenant", "acme", "my_tenant acme"),
    ],
)
def test_a_trait_is_said_in_words_and_a_name_of_the_users_as_it_is(
    key: str, value: str, text: str
) -> None:
    assert trait_text(key, value) == text


def test_a_stage_that_most_of_an_unexplained_tail_is_in_is_named_beside_what_sets_it_apart() -> (
    None
):
    document = tail_document(of_cause(None, excess(Stage.APPLICATION, 750, 20)))
    document["attributes"] = [
        {
            "key": "batch_size",
            "value": "over 4",
            "tail_share_ratio": 0.4,
            "reference_share_ratio": 0.03,
            "p_value": 0.04,
        }
    ]

    assert sentence(document) == (
        "No single cause explains the slow requests: what they have in common is listed below. "
        "Most of it, 100.0 %, is application, which varies this much in all requests."
    )
