"""Every reading command in a narrow terminal: columns are left out, no number is cut."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from latencytrace.cli.app import app
from latencytrace.cli.pictures import terminal
from tests.support.builders.compared_versions import REQUESTS, VERSIONS, compared_versions
from tests.support.builders.gpu_requests import request
from tests.support.builders.gpu_traffic import sample, span
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.builders.slow_searches import REQUESTS as SEARCHES
from tests.support.builders.slow_searches import slow_searches
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.few import few
from tests.support.servers.running_service import RunningService
from tests.support.simulation.simulated_gpu import SimulatedGpu
from tests.support.waiting import until

pytestmark = pytest.mark.long

CUT_NUMBER = re.compile(r"[\d.]…|…\d")
FIRST_SEARCH = 1_000_000  # apart from the traces of versions
LONG_ROUTE = "POST /v{version}/chat/completions/of/a/long/name"
COMMANDS = {
    "breakdown": ("breakdown", "--since", "2h"),
    "requests": ("requests", "--limit", "9"),
    "trace": ("trace", "slowest"),
    "tail": ("tail", "--service", "search", "--quantile", "0.95"),
    "compare": ("compare", "version=1", "version=slower-search"),
    "what if": ("whatif", "--stage", "retrieve", "--faster", "0.5", "--service", "search"),
    "objectives": ("objectives",),
    "gpu": ("gpu", "--once"),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that knows versions, slow searches of a long name, an objective and a GPU."""
    folder = tmp_path_factory.mktemp("narrow")
    promised = objectives_yaml(folder)
    with RunningService(folder / "data", "--objectives", str(promised)) as running:
        for spans in compared_versions():
            assert running.post(otlp(*spans)).is_success
        searches = slow_searches(first=FIRST_SEARCH)
        named = [
            replace(one, service="search", name=LONG_ROUTE if one.parent_id is None else one.name)
            for one in searches
        ]
        assert running.post(otlp(*named)).is_success
        gpu = SimulatedGpu(3, start_ns=time.time_ns() - 40 * 10**9)
        gpu.run(5)
        body = request([sample(window) for window in gpu.windows()]).SerializeToString()
        assert running.post(body, path="/v1/metrics").is_success
        assert running.post(otlp(*(span(work) for work in gpu.work))).is_success
        wanted = REQUESTS * len(VERSIONS) + SEARCHES
        until(lambda: int(str(running.ask("/breakdown")["requests"])) >= wanted, running.said)
        until(lambda: running.ask("/gpu")["stages"], running.said)
        yield running


@pytest.mark.parametrize("width", few(1, [60, 80]))
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_number_is_cut_and_no_line_is_too_long(
    service: RunningService,
    command: tuple[str, ...],
    width: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATENCYTRACE_URL", service.url)
    monkeypatch.setattr(terminal, "PIPED_WIDTH", width)
    result = CliRunner().invoke(app, list(command), catch_exceptions=False)
    lines = result.stdout.splitlines()

    assert result.exit_code in {0, 1}, result.output  # 1: what is compared got slower
    assert re.search(r"\d (ms|s|%)|\dx", result.stdout)
    assert [line for line in lines if CUT_NUMBER.search(line)] == []
    assert [line for line in lines if len(line) > width] == []


def test_a_comparison_in_80_cells_has_all_of_its_columns(
    service: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATENCYTRACE_URL", service.url)
    monkeypatch.setattr(terminal, "PIPED_WIDTH", 80)
    shown = CliRunner().invoke(app, list(COMMANDS["compare"]), catch_exceptions=False).stdout

    assert re.search(r"^of +before +after +shift +95 % interval +p$", shown, re.MULTILINE), shown
