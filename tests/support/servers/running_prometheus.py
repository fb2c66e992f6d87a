"""The real Prometheus and Alertmanager, each on a free port of loopback."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx
import yaml

from tests.support.servers.prometheus_programs import alertmanager, prometheus
from tests.support.waiting import PATIENCE_S, until

_ADDRESS = re.compile(r'"Listening on" address=(127\.0\.0\.1:\d+)')
T = TypeVar("T")


def alertmanager_config(
    webhook: str, *, group_wait: str = "0s", group_interval: str = "1s"
) -> dict[str, Any]:
    """The configuration that sends every notification to a webhook, by default soon."""
    return {
        "route": {
            "receiver": "us",
            "group_by": ["slo"],
            "group_wait": group_wait,
            "group_interval": group_interval,
        },
        "receivers": [{"name": "us", "webhook_configs": [{"url": f"{webhook}/alerts"}]}],
    }


class RunningServer:
    """A server that says where it listens.

    Args:
        folder: Holds its files; made if it is not there.
        config: What its file says.
        command: How it is started, the file and the folder left out.
        started_in: The folder that it is started in; None: wherever the tests run.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        *command: str | Path,
        started_in: Path | None = None,
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(dict(config)))
        with ExitStack() as opened:
            self._log = opened.enter_context((folder / "log").open("w+b"))
            self.client = opened.enter_context(httpx.Client(timeout=PATIENCE_S, trust_env=False))
            self._process = opened.enter_context(
                subprocess.Popen(
                    [*command, f"--config.file={self.config}", "--web.listen-address=127.0.0.1:0"],
                    stdout=self._log,
                    stderr=subprocess.STDOUT,
                    cwd=started_in,
                )
            )
            opened.callback(self._process.kill)
            self.address = self._once(lambda: _ADDRESS.search(self.said()))[1]
            self.url = f"http://{self.address}"
            self._once(lambda: self.client.get(f"{self.url}/-/ready").is_success)
            self._opened = opened.pop_all()

    def said(self) -> str:
        """What it printed so far."""
        return os.pread(self._log.fileno(), 1 << 20, 0).decode()

    def _once(self, answer: Callable[[], T | None]) -> T:
        def while_it_runs() -> T | None:
            assert self._process.poll() is None, f"it ended at once and said:\n{self.said()}"
            return answer()

        return until(while_it_runs, self.said)

    def end(self) -> None:
        """End it at once."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class RunningPrometheus(RunningServer):
    """Prometheus, with exemplars and whatever else it has only when asked.

    Args:
        folder: Holds its files.
        config: What its file says.
        features: More than exemplars.
        takes_writes: Others may hand on what they scrape.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        *features: str,
        takes_writes: bool = False,
    ) -> None:
        super().__init__(
            folder,
            config,
            prometheus(),
            f"--storage.tsdb.path={folder / 'data'}",
            f"--enable-feature={','.join(('exemplar-storage', *features))}",
            "--web.enable-lifecycle",
            *(("--web.enable-remote-write-receiver",) if takes_writes else ()),
        )

    def ask(self, path: str, **parameters: str | float) -> Any:
        """What its API answers."""
        answer = self.client.get(f"{self.url}/api/v1/{path}", params=parameters)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def value(self, expr: str) -> float | None:
        """The value of a query that has one; None: it has none yet."""
        found = self.ask("query", query=expr)["result"]
        return float(found[0]["value"][1]) if found else None

    def over_time(self, expr: str, seconds: int = 600) -> list[list[float]]:
        """The values of each series over the last seconds, one a second."""
        now_s = time.time()
        answer = self.ask("query_range", query=expr, start=now_s - seconds, end=now_s, step=1)
        return [[float(value) for _, value in series["values"]] for series in answer["result"]]


class RunningAlertmanager(RunningServer):
    """Alertmanager, alone."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        super().__init__(
            folder,
            config,
            (program := alertmanager()),
            f"--storage.path={folder / 'data'}",
            "--cluster.listen-address=",
            started_in=program.parents[1],
        )
