"""Stages that a program names itself, from its code to the answers."""

import re
from pathlib import Path
from typing import Any, cast

from latencytrace.model import Stage
from tests.support.servers.command_line import environment, latencytrace, python
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

PROGRAM = """
import asyncio, time, latencytrace

latencytrace.instrument("ranking")

async def nightly():
    async with latencytrace.request("nightly"):
        async with latencytrace.stage("rank_rules"):
            await asyncio.sleep(0.2)
        with latencytrace.stage("fetch <user>"):
            time.sleep(0.02)

asyncio.run(nightly())
assert latencytrace.flush(60)
"""


def test_which_of_the_users_stages_it_is_stands_in_every_answer(tmp_path: Path) -> None:
    with RunningService(tmp_path / "data") as service:
        env = environment(OTEL_EXPORTER_OTLP_ENDPOINT=service.otlp)
        python("-c", PROGRAM, env=env, check=True)
        until(lambda: service.ask("/breakdown")["requests"] == 1, service.said)

        (stage,) = [
            row
            for row in cast("list[dict[str, Any]]", service.ask("/breakdown")["stages"])
            if row["stage"] == Stage.APPLICATION
        ]
        assert [(part["name"], part["requests"]) for part in stage["parts"]] == [
            ("rank_rules", 1),
            ("fetch <user>", 1),
        ]
        assert sum(part["mean_ns"] for part in stage["parts"]) == stage["mean_ns"]
        (request,) = cast("list[dict[str, Any]]", service.ask("/requests")["requests"])
        for path in ("/breakdown", f"/requests/{request['trace_id']}"):
            text = re.sub("<[^>]*>", "", service.get(path).text)
            assert re.search(r"application\s*rank_rules \d", text)
            assert re.search(r"fetch &lt;user&gt; \d", text)
        shown = [
            latencytrace(*command, "--url", service.url).stdout
            for command in (["breakdown"], ["trace", "latest"], ["requests"])
        ]
        assert "· rank_rules " in shown[0]
        assert "of the application: rank_rules " in shown[1]
        assert "application (rank_rules)" in shown[2]
