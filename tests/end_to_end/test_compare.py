"""Cohorts compared and forecast through the service: sent as spans, asked for as users do."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.builders.compared_versions import REQUESTS, VERSIONS, compared_versions
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.few import few
from tests.support.servers.command_line import environment, latencytrace
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that holds all versions."""
    with RunningService(tmp_path_factory.mktemp("compared") / "data") as running:
        for spans in compared_versions():
            assert running.post(otlp(*spans)).is_success
        until(
            lambda: running.ask("/breakdown")["requests"] == REQUESTS * len(VERSIONS),
            running.said,
        )
        yield running


def run(service: RunningService, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return latencytrace(*arguments, env=environment(LATENCYTRACE_URL=service.url))


def test_a_slower_search_fails_the_build_and_is_named(service: RunningService) -> None:
    ended = run(service, "compare", "version=1", "version=slower-search")

    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.startswith("Regression: p50 is ")
    assert "in retrieve" in ended.stdout.splitlines()[0]


def test_longer_prompts_do_not_fail_the_build(service: RunningService) -> None:
    ended = run(service, "compare", "version=1", "version=longer-prompts", "--json")

    document = json.loads(ended.stdout)
    plain = [document[side]["duration_ns"]["p50"] for side in "ab"]
    assert ended.returncode in {0, 3}, ended.stdout
    assert document["matched_on"] == ["input_tokens", "output_tokens", "concurrency"]
    assert plain[1] > 1.2 * plain[0]


def test_too_few_requests_end_with_three_and_say_how_many_it_takes(
    service: RunningService,
) -> None:
    few = "version=1&input_tokens=500..510"

    ended = run(service, "compare", few, few, "--json")

    document = json.loads(ended.stdout)
    assert ended.returncode == 3
    assert document["verdict"] == "not_enough_data"
    assert document["needed_requests"] > document["a"]["requests"]


def test_a_side_without_requests_says_which_versions_there_are(service: RunningService) -> None:
    ended = run(service, "compare", "version=1", "version=9.9")

    assert ended.returncode == 1  # nobody has it, which no more data will change
    assert ended.stdout.startswith("Not enough data: no request after.")
    versions = ", ".join(sorted(VERSIONS))
    assert ended.stderr == (
        "latencytrace: B: No request of any time has --version 9.9. "
        f"Versions of the newest 1,000: {versions}.\n"
    )


@pytest.mark.parametrize("shape", ["--json", "--markdown", "--at-least=3%"])
@pytest.mark.parametrize(
    ("side", "said"),
    [
        ("service=chta", "B: No service is called 'chta'. There are: "),
        ("route=/chta", "B: No route is called '/chta'. There are: "),
    ],
    ids=["service", "route"],
)
def test_a_name_that_nobody_has_is_no_lack_of_data(
    service: RunningService, side: str, said: str, shape: str
) -> None:
    ended = run(service, "compare", "version=1", side, shape)

    assert ended.returncode == 1
    assert said in ended.stderr


def test_a_version_without_requests_in_that_time_lacks_data(service: RunningService) -> None:
    ended = run(service, "compare", "version=1", "version=1&since=5m")

    assert ended.returncode == 3, ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("B: No request with --since 5m")


def test_an_improvement_ends_with_zero_and_is_markdown_where_asked_for(
    service: RunningService,
) -> None:
    ended = run(service, "compare", "version=slower-search", "version=1", "--markdown")

    lines = ended.stdout.splitlines()
    assert ended.returncode == 0
    assert lines[0].startswith("### ✅ Improvement: p50 is ")
    rows = [line for line in lines if line.startswith("| retrieve |")]
    assert [row.split("|")[2].strip() for row in rows] == ["p50", "p95", "p99"]


def test_flags_hold_for_both_sides_where_a_side_does_not_say_otherwise(
    service: RunningService,
) -> None:
    ended = run(service, "compare", "version=1", "", "--version", "slower-search", "--json")

    document = json.loads(ended.stdout)
    assert [document[side]["requests"] for side in "ab"] == [REQUESTS, REQUESTS]
    assert document["verdict"] == "regression"


def test_a_baseline_is_saved_listed_compared_with_and_deleted(service: RunningService) -> None:
    other = "version=slower-search"

    saved = run(service, "compare", "version=1", "--save", "release-1")
    listed = run(service, "compare", "--baselines")
    found = service.ask(f"/compare?a=baseline:release-1&b={quote(other)}")
    deleted = run(service, "compare", "--delete", "release-1")
    gone = service.get(f"/api/v1/compare?a=baseline:release-1&b={quote(other)}")

    assert saved.stdout == f"Saved {REQUESTS:,} requests as baseline:release-1.\n"
    assert listed.stdout.splitlines()[1].startswith("release-1  version=1")
    assert found == service.ask(f"/compare?a={quote('version=1')}&b={quote(other)}")
    assert deleted.stdout == "Deleted baseline:release-1.\n"
    assert gone.status_code == 404
    assert "no baseline is named 'release-1'" in gone.json()["detail"]


@pytest.mark.long
def test_exported_files_are_compared_as_their_cohorts_are(
    service: RunningService, tmp_path: Path
) -> None:
    files = []
    for version, ending in (("1", "csv"), ("slower-search", "parquet")):
        body = service.get(f"/api/v1/ledgers?version={version}&format={ending}").content
        files.append(tmp_path / f"{version}.{ending}")
        files[-1].write_bytes(body)

    of_files = latencytrace("compare", *files, "--json")
    mixed = run(service, "compare", files[0], "version=slower-search", "--json")

    asked = service.ask("/compare?a=version%3D1&b=version%3Dslower-search")
    assert of_files.returncode == mixed.returncode == 1
    assert json.loads(of_files.stdout) == json.loads(mixed.stdout) == asked


def test_a_faster_search_is_forecast_end_to_end(service: RunningService) -> None:
    ended = run(
        service,
        *("whatif", "--version", "slower-search", "--stage", "retrieve"),
        *("--faster", "66.7%", "--json"),
    )
    shown = run(service, "whatif", "--stage", "retrieve", "--at-most-ms", "50")
    halved = run(service, "whatif", "--stage", "retrieve", "--faster", "0.5")
    absent = run(service, "whatif", "--stage", "guardrail", "--faster", "0.5")

    document = json.loads(ended.stdout)
    usual = service.ask("/breakdown?version=1")["duration_ns"]
    assert isinstance(usual, dict)
    assert document["replayed_spans"] == document["replayed_requests"] > 0
    then = document["duration_ns"]["p50"]["then"]
    assert then == pytest.approx(usual["p50"], rel=0.1)  # where the search was never slower
    assert document["error_ratio"] is not None
    assert shown.stdout.startswith("If retrieve took at most 50 ms")
    assert halved.stdout.startswith("If retrieve were 50 % faster")
    assert "waited for guardrail: a stage of the breakdown gives something" in absent.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    few(
        3,
        [
            (("compare", "version=1"), "name two cohorts"),
            (("compare", "nonsense", "version=1"), "'nonsense' is no cohort"),
            (("compare", "colour=red", "version=1"), "'colour' is no filter of requests"),
            (("compare", "a=1", "b=2", "--at-least", "much"), "'much' is no share"),
            (("compare", "version=1", "--save", "two words"), "cannot name a baseline"),
            (("compare", "version=1", "--save", "../x"), "cannot name a baseline"),
            (("compare", "version=1", "--save", ".."), "cannot name a baseline"),
            (("compare", "version=none", "--save", "empty"), "there is nothing to save"),
            (("whatif", "--stage", "retrieve"), "say either --faster"),
            (("whatif", "--stage", "search", "--faster", "0.5"), "stage 'search' is not known"),
            (("whatif", "--stage", "decode", "--faster", "2"), "is more than 100%"),
        ],
    ),
)
def test_what_cannot_be_answered_is_refused_in_a_sentence(
    service: RunningService, arguments: tuple[str, ...], said: str
) -> None:
    ended = run(service, *arguments)

    assert ended.returncode not in {0, 3}
    assert said in " ".join(ended.stderr.replace("│", " ").split())
