"""Sides of a comparison: which requests are counted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.cli.commands.compare import exit_code
from latencytrace.cli.pictures.comparison import markdown, picture
from latencytrace.errors import QuestionError
from latencytrace.model import Request, RequestStatus, Segment, Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.model.texts.units import moment
from latencytrace.service.answers.compare import comparison, save_baseline
from latencytrace.service.answers.compare_documents import CompareDocument, SpellDocument
from latencytrace.service.answers.sentences.compare import (
    END_TO_END,
    about_new_spells,
    circumstances,
    notes,
    rows,
    sentence,
)
from latencytrace.service.reports.engine_history import EngineHistory
from latencytrace.service.reports.engine_readings import Reading
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.store import Store
from latencytrace.service.web.pages.analyses.compare import shifts, spells
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.fakes.listed_requests import store_of
from tests.support.terminal import plain, printed_lines

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


def test_a_side_says_what_its_requests_brought_and_met(tmp_path: Path) -> None:
    known = [(1000, 900, 2, True), (3000, 100, 5, False), (None, 5, None, None)]
    store = store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 1000}),
                trace_id=f"{place + 1:032x}",
                input_tokens=brought,
                cached_input_tokens=cached,
                batch_size=together,
                cold_start=cold,
            )
            for place, (brought, cached, together, cold) in enumerate(known)
        )
    )

    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=no"), 0.05, NOW_NS)

    met = found["a"]["circumstances"]
    assert (met["input_tokens"], met["batch_size"]) == (2000, 3.5)
    assert (met["cached_input_ratio"], met["cold_start_ratio"]) == (0.25, 0.5)
    assert met["preemptions"] is None
    assert set(found["b"]["circumstances"].values()) == {None}
    shown = {name: (a, b) for name, a, b in circumstances(found)}
    assert shown["input tokens"] == ("2,000", "-")
    assert shown["input cached"] == ("25.0 %", "-")
    assert shown["batch size"] == ("3.5", "-")
    assert "preemptions" not in shown


def test_cold_starts_have_no_share_where_only_those_that_had_one_say_so(tmp_path: Path) -> None:
    store = store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 1000}),
                trace_id=f"{place + 1:032x}",
                cold_start=cold,
            )
            for place, cold in enumerate((True, None, None))
        )
    )

    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=no"), 0.05, NOW_NS)

    assert found["a"]["circumstances"]["cold_start_ratio"] is None


@pytest.mark.parametrize(
    ("a", "b", "empty"),
    [("rag", "no", "after"), ("no", "rag", "before"), ("no", "nor", "before or after")],
    ids=("the second", "the first", "both"),
)
def test_a_side_without_a_request_is_named(a: str, b: str, empty: str, tmp_path: Path) -> None:
    store = store_of(made_request(stages={Stage.DECODE: 1000}))
    sides = (f"service={a}", f"service={b}")

    found = comparison(store, Baselines(tmp_path), sides, 0.05, NOW_NS)

    assert sentence(found) == f"Not enough data: no request {empty}."


def test_what_is_left_out_is_said_of_sides_that_have_requests(tmp_path: Path) -> None:
    store = store_of(made_request(stages={Stage.DECODE: 1000}, status=RequestStatus.ERROR))

    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=no"), 0.05, NOW_NS)

    assert "Left out: 100.0 % of the requests, which failed or were rejected." in notes(found)


def test_a_stage_of_some_requests_alone_has_every_quantile_under_its_name(tmp_path: Path) -> None:
    store = store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 1000, Stage.TOOL: 1000 * (place % 10 == 0)}),
                trace_id=f"{place + 1:032x}",
                start_ns=START_NS + place,
            )
            for place in range(400)
        )
    )

    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=rag"), 0.05, NOW_NS)

    assert [level for name, level, _ in rows(found) if name == "tool"] == ["p50", "p95", "p99"]


def test_that_neighbours_are_alike_is_said_where_they_are(tmp_path: Path) -> None:
    store = store_of(made_request(stages={Stage.DECODE: 1000}))
    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=rag"), 0.05, NOW_NS)

    enough: CompareDocument = {**found, "needed_requests": None}
    assert not any("alike" in note for note in notes({**enough, "block_requests": [24, 24]}))
    assert list(notes({**enough, "alike_requests": [1, 40]})) == [
        "Neighbouring requests are alike; up to 40 count as one."
    ]
    assert sentence({**found, "needed_requests": 9000, "alike_requests": [1, 40]}).startswith(
        "Not enough data: neighbouring requests are alike (up to 40 count as one), so it takes"
    )


SPELL: SpellDocument = {
    "start": str(START_NS),
    "end": str(START_NS + 15 * 60 * 10**9),
    "requests": 1,
    "share_ratio": 0.14,
    "mean_ns": 1_900_000_000,
    "usual_ns": 1_000_000_000,
    "stage": Stage.QUEUE,
}


def test_a_slow_spell_is_named_with_its_time_and_leads_to_why_it_was_slow(tmp_path: Path) -> None:
    store = store_of(made_request(stages={Stage.DECODE: 1000}))
    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=rag"), 0.05, NOW_NS)
    hit: CompareDocument = {**found, "spells": [[], [SPELL]]}

    assert sentence(hit).endswith(
        "Left out: a slow spell after (14.0 % of its requests, in queue)."
    )
    both: CompareDocument = {**found, "spells": [[SPELL], [SPELL]]}
    assert not list(about_new_spells(both))
    (said, why), (so_what, nowhere) = spells(hit, ("baseline:old", "service=rag&since=1h"))
    assert said == (
        f"Slow spell after: from {moment(START_NS)}, for 15 min 00 s; 1 request, on average "
        "1.90 s instead of 1.00 s, mostly in queue."
    )
    assert [so_what] == list(about_new_spells(hit))
    assert nowhere is None
    assert why is not None
    assert str(why).startswith("/tail?service=rag&since=20")
    assert next(why for _, why in spells(both, ("baseline:old", "service=rag"))) is None
    assert any(said in line for line in markdown(hit, ("a", "b")).splitlines())
    assert said in printed_lines(picture(hit, ("a", "b")), plain(width=200))


def test_a_spell_that_is_most_of_a_side_comes_before_the_verdict(tmp_path: Path) -> None:
    store = store_of(made_request(stages={Stage.DECODE: 1000}))
    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=rag"), 0.05, NOW_NS)

    said = sentence({**found, "spells": [[], [{**SPELL, "share_ratio": 0.6}]]})

    assert said.startswith(
        "Left out: a slow spell after (60.0 % of its requests, in queue). Of the"
    )


def test_a_verdict_beside_a_new_slow_spell_passes_no_build(tmp_path: Path) -> None:
    store = store_of(made_request(stages={Stage.DECODE: 1000}))
    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=rag"), 0.05, NOW_NS)
    no_change: CompareDocument = {**found, "verdict": Verdict.NO_CHANGE}

    assert exit_code(no_change) == 0
    assert exit_code({**no_change, "spells": [[], [SPELL]]}) == 3
    assert exit_code({**no_change, "spells": [[SPELL], [SPELL]]}) == 0
    assert exit_code({**no_change, "verdict": Verdict.REGRESSION, "spells": [[], [SPELL]]}) == 1


def test_it_is_said_how_long_the_requests_that_lack_take_to_come(tmp_path: Path) -> None:
    store = store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 1000}),
                trace_id=f"{place + 1:032x}",
                start_ns=START_NS + place * 60 * 10**9,
            )
            for place in range(11)
        )
    )
    side = "service=rag&since=2000-01-01T00:00:00Z"

    found = comparison(store, Baselines(tmp_path), (side, side), 0.05, START_NS + 11 * 60 * 10**9)

    assert found["needed_requests"] == 50
    assert found["wait_ns"] == round((50 - 11) / 11 * 10 * 60 * 10**9)
    assert "those after in about 35 min more at their pace" in sentence(found)


def test_what_is_not_tested_has_no_interval_wherever_it_is_shown(tmp_path: Path) -> None:
    store = store_of(
        *(
            replace(
                made_request(stages={Stage.DECODE: 1000 + 37 * place % 400}),
                trace_id=f"{place + 1:032x}",
                start_ns=START_NS + place,
            )
            for place in range(400)
        )
    )
    sides = ("service=rag", "service=rag")

    found = comparison(store, Baselines(tmp_path), sides, 0.05, NOW_NS)

    told = {(name, level): shift["low"] for name, level, shift in rows(found)}
    assert told[END_TO_END, "p95"] is not None
    assert told[END_TO_END, "p99"] is None
    console = plain(100)
    lines = printed_lines(picture(found, sides), console)
    (line,) = [line for line in lines if line.split()[:1] == ["p99"]][:1]
    assert line.split()[-2:] == ["-", "-"]
    (row,) = [row for row in markdown(found, sides).splitlines() if "| end to end | p99" in row]
    assert row.endswith(" | - | - |")
    bars = {row[:2]: row[-1] for row in shifts(found)}
    assert "ends" in bars[END_TO_END, "p95"]
    assert "ends" not in bars[END_TO_END, "p99"]


def test_a_side_says_what_engines_told_when_its_requests_began(tmp_path: Path) -> None:
    history = EngineHistory(lambda: NOW_NS)
    history.note("a:1", ("vllm", "tiny"), {Reading.KV_CACHE_USE: 0.5, Reading.ACCEPTANCE: 0.75})
    store = store_of(made_request(stages={Stage.DECODE: 1000}))

    found = comparison(
        store, Baselines(tmp_path), ("service=rag", "service=no"), 0.05, NOW_NS, history.beside
    )

    met = found["a"]["circumstances"]
    assert met["engine_kv_cache_use_ratio"] == 0.5
    assert met["engine_speculative_acceptance_ratio"] == 0.75
    assert met["engine_waiting_requests"] is None
    shown = {name: (a, b) for name, a, b in circumstances(found)}
    assert shown["KV cache in use"] == ("50.0 %", "-")
    assert shown["drafts accepted"] == ("75.0 %", "-")


def test_an_older_service_that_knows_no_circumstances_is_read_too(tmp_path: Path) -> None:
    store = in_every_detail()
    found = comparison(store, Baselines(tmp_path), ("service=rag", "service=rag"), 0.05, NOW_NS)
    for side in (found["a"], found["b"]):
        del side["circumstances"]  # type: ignore[misc] # as it answers

    assert list(circumstances(found)) == []
    assert any(picture(found, ("", "")))
    assert "mean of a request" not in markdown(found, ("", ""))


def of_own_stages(version: str, lengths_ms: tuple[int, int]) -> list[Request]:
    """Requests of a version in two stages of the user's own."""
    first = 0 if version == "1" else 400
    return [
        made_request(
            trace_id=f"{number + 1:032x}",
            version=version,
            start_ns=START_NS + number,
            duration_ns=sum(lengths_ns),
            segments=tuple(
                Segment(
                    start_ns=start_ns,
                    end_ns=start_ns + length_ns,
                    stage=Stage.APPLICATION,
                    span_id="1" * 16,
                    name=name,
                )
                for name, start_ns, length_ns in (
                    ("rank_rules", 0, lengths_ns[0]),
                    ("fetch user", lengths_ns[0], lengths_ns[1]),
                )
            ),
            ledger={Stage.APPLICATION: sum(lengths_ns)},
        )
        for number in range(first, first + 400)
        for lengths_ns in [[length * 10**6 + number * 37 % 101 for length in lengths_ms]]
    ]


@pytest.mark.parametrize(
    ("lengths_ms", "said"),
    [
        ((90, 100), "Regression: p50 is 58.3 % slower, in application (mostly rank_rules)."),
        ((5, 100), "Improvement: p50 is 12.5 % faster, in application (mostly rank_rules)."),
        ((60, 110), "Regression: p50 is 41.7 % slower, in application (mostly rank_rules)."),
    ],
    ids=["slower", "faster", "the greater part of two"],
)
@pytest.mark.parametrize("before", ["version=1", "baseline:before"])
def test_the_users_own_stage_that_shifted_is_named(
    lengths_ms: tuple[int, int], said: str, before: str, tmp_path: Path
) -> None:
    store = store_of(*of_own_stages("1", (20, 100)), *of_own_stages("2", lengths_ms))
    baselines = Baselines(tmp_path)
    save_baseline(store, baselines, "before", "version=1", NOW_NS)

    found = comparison(store, baselines, (before, "version=2"), 0.05, NOW_NS)

    assert sentence(found) == said


def test_a_baseline_of_an_older_version_tells_no_parts(tmp_path: Path) -> None:
    store = store_of(*of_own_stages("1", (20, 100)), *of_own_stages("2", (90, 100)))
    baselines = Baselines(tmp_path)
    save_baseline(store, baselines, "before", "version=1", NOW_NS)
    about = tmp_path / "before.about.json"
    told = json.loads(about.read_text())
    del told["parts"]
    about.write_text(json.dumps(told))

    found = comparison(store, baselines, ("baseline:before", "version=2"), 0.05, NOW_NS)

    assert sentence(found) == "Regression: p50 is 58.3 % slower, in application."
