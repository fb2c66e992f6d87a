"""A service of which nothing is compiled gives what one does that is, and says that it is slow."""

from pathlib import Path

import pytest

from tests.support.builders.spans.otlp_messages import otlp
from tests.support.compiled import COMPILED
from tests.support.servers.running_service import RunningService
from tests.support.simulation.simulator import Aside, simulate
from tests.support.simulation.ways import WAYS

pytestmark = pytest.mark.long

SLOW = "nothing is compiled"
ITS_OWN = {"written", "version", "revision"}  # of a process, or a moment


@COMPILED
@pytest.mark.parametrize("way", ["none", *list(WAYS)[:2]])
def test_both_give_the_same_requests(way: str, tmp_path: Path) -> None:
    traces = simulate(5, 8, {}, WAYS.get(way, Aside()))
    found = []
    with (
        RunningService(tmp_path / "plain", env={"LATENCYTRACE_COMPILED": "0"}) as plain,
        RunningService(tmp_path / "compiled") as compiled,
    ):
        for service in (plain, compiled):
            for trace in traces:
                assert service.post(otlp(*trace.spans)).is_success
            found.append([service.request(trace.trace_id) for trace in traces])
        ways = [
            service.metric(rf'latencytrace_service_attributed_traces_total{{by="{by}"}}')
            for service in (plain, compiled)
            for by in ("objects", "columns")
        ]
        said = [SLOW in service.said() for service in (plain, compiled)]

    assert found[0] == found[1]
    assert ways[:2] == [len(traces), 0]
    assert ways[3] > 0
    assert said == [True, False]
