"""`latencytrace run` says what becomes of our tracing beside somebody else's."""

import sys
from pathlib import Path

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.few import few
from tests.support.servers.command_line import environment, latencytrace

WHO = "print(latencytrace.agent_status().provider, latencytrace.agent_status().running)"
SAID = "opentelemetry-instrument takes our place"


@pytest.fixture
def contrib(tmp_path: Path) -> str:
    """OpenTelemetry's launcher, as its package installs it."""
    auto = pytest.importorskip("opentelemetry.instrumentation.auto_instrumentation")
    script = tmp_path / "opentelemetry-instrument"
    script.write_text(f"#!{sys.executable}\nfrom {auto.__name__} import run\nrun()\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("program", "answer"),
    few(
        1,
        [
            pytest.param(
                f"import latencytrace; latencytrace.instrument(); {WHO}",
                "ours True",
                id="with ours",
            ),
            pytest.param(f"import latencytrace; {WHO}", "None False", id="left to it"),
        ],
    ),
)
def test_run_says_that_opentelemetry_instrument_takes_our_place(
    contrib: str, program: str, answer: str
) -> None:
    with Receiver() as receiver:
        ran = latencytrace(
            *("run", "--", contrib, sys.executable, "-c", program),
            env=environment(
                OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
                OTEL_METRICS_EXPORTER="none",
                OTEL_LOGS_EXPORTER="none",
            ),
        )

    assert ran.stdout.strip() == answer, ran.stderr
    assert ran.stderr.count(SAID) == 1
    assert f"latencytrace run -- {sys.executable} -c {program}" in ran.stderr


def test_run_is_silent_on_other_tracers_where_there_are_none() -> None:
    with Receiver() as receiver:
        ran = latencytrace(
            *("run", "--", sys.executable, "-c", "pass"),
            env=environment(OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint),
        )

    assert "opentelemetry-instrument" not in ran.stderr
