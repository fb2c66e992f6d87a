"""Cells of notebooks on a real kernel of IPython, traced without a server."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent.receiving import Receiver
from tests.support.servers.command_line import environment, listening
from tests.support.waiting import until

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

EXAMPLE = Path(__file__).parents[2] / "examples" / "notebook" / "cell_magic.ipynb"
HTML, TEXT = "text/html", "text/plain"
PATIENCE_S = 150  # for a cell, on a machine that does something else too
pytestmark = pytest.mark.filterwarnings(
    "default::DeprecationWarning", "default::ResourceWarning"
)  # of the client's own sockets and loops


class Ran:
    """The cells of a notebook that ran.

    Args:
        cells: As nbformat has them.
    """

    def __init__(self, cells: Sequence[Any]) -> None:
        self._outputs: list[list[Any]] = [
            list(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"
        ]

    def shown(self, cell: int, kind: str = TEXT) -> str:
        """What our display of a cell holds."""
        [display] = [one for one in self._outputs[cell] if one["output_type"] == "display_data"]
        found: str = display["data"][kind]
        return found

    def value(self, cell: int) -> str | None:
        """The value of a cell's last line."""
        values = [one for one in self._outputs[cell] if one["output_type"] == "execute_result"]
        return values[0]["data"][TEXT] if values else None

    def errors(self, cell: int) -> list[str]:
        """The exceptions of a cell."""
        return [one["ename"] for one in self._outputs[cell] if one["output_type"] == "error"]

    def said(self) -> str:
        """What the cells printed, to standard error as well."""
        streams = (one for cell in self._outputs for one in cell if one["output_type"] == "stream")
        return "".join(one["text"] for one in streams)


def run(notebook: Any, folder: Path, **variables: str) -> Ran:
    """Run a notebook on a kernel of its own."""
    client = nbclient.NotebookClient(
        notebook,
        timeout=PATIENCE_S,
        startup_timeout=PATIENCE_S,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    settings = {"LATENCYTRACE_GPU": "0", "IPYTHONDIR": str(folder / "ipython")}
    client.execute(env=environment(**settings, **variables))
    return Ran(notebook["cells"])


def cells(*sources: str) -> Any:
    """A notebook of these cells, the first of which loads the extension."""
    notebook = nbformat.v4.new_notebook()
    notebook["cells"] = [
        nbformat.v4.new_code_cell(source) for source in ("%load_ext latencytrace", *sources)
    ]
    return notebook


def test_the_example_shows_its_questions_and_a_cell_without_any(tmp_path: Path) -> None:
    ran = run(nbformat.read(EXAMPLE, as_version=4), tmp_path)

    assert ran.said() == ""
    assert "question · notebook" in ran.shown(3)
    assert "3 requests" in ran.shown(3)
    for stage in ("preprocess", "retrieve", "rerank", "unattributed"):
        assert f"s-{stage}" in ran.shown(3, HTML)
    assert ran.value(3) == "['json.JSONDecoder', 're.compile', 'sqlite3.Connection']"
    assert "cell · notebook" in ran.shown(4)
    assert "tokenize" in ran.shown(4)


def test_cells_fail_await_and_start_programs_as_without_us(tmp_path: Path) -> None:
    ran = run(
        cells(
            "%%latencytrace failing\n1 / 0",
            "import asyncio, latencytrace\n"
            "with latencytrace.request('awaiting'):\n    await asyncio.sleep(0.001)",
            "%latencytrace",
            "import os, subprocess, sys\n"
            "to = {'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT': latencytrace.agent_status().endpoint}\n"
            "program = 'import latencytrace as l; l.instrument(); l.request(\"far\")(print)()'\n"
            "program += '; l.flush(60)'",
            "%%latencytrace starting\n"
            "subprocess.run([sys.executable, '-c', program], env={**os.environ, **to}).returncode",
            "%%latencytrace quiet\n'hidden';",
            "%unload_ext latencytrace",
            "latencytrace.agent_status().running",
        ),
        tmp_path,
    )

    assert ran.errors(1) == ["ZeroDivisionError"]
    assert "failing · notebook" in ran.shown(1)
    assert "error" in ran.shown(1, HTML)
    assert "awaiting · notebook" in ran.shown(3)
    assert "far · python" in ran.shown(5)
    assert ran.value(5) == "0"
    assert ran.value(6) is None
    assert ran.value(8) == "False"


def test_a_cell_keeps_what_ended_before_it_and_runs_as_without_us(tmp_path: Path) -> None:
    ran = run(
        cells(
            "import latencytrace\nlatencytrace.request('before')(int)()",
            "%%latencytrace traced\n'shown'  # t;",
            "%latencytrace",
            "%%latencytrace\n'hidden';  # t",
            "%%latencytrace\nbegan = True\n(yield)",
            "'began' in globals()",
        ),
        tmp_path,
    )

    assert "before" not in ran.shown(2)
    assert ran.value(2) == "'shown'"
    assert "before · notebook" in ran.shown(3)
    assert ran.value(4) is None
    assert ran.errors(5) == ["SyntaxError"]
    assert ran.value(6) == "False"


@pytest.mark.long
def test_no_cell_waits_for_a_receiver_that_does_not_answer(tmp_path: Path) -> None:
    hour = "import latencytrace.notebook.spans as spans\nspans.FLUSH_S = 3600.0"
    with listening() as address:
        ran = run(
            cells(hour, "%%latencytrace first\n1", "%%latencytrace second\n2"),
            tmp_path,
            OTEL_EXPORTER_OTLP_ENDPOINT=address,
            OTEL_EXPORTER_OTLP_TIMEOUT="3600",
        )

    assert "first · notebook" in ran.shown(2)
    assert "second · notebook" in ran.shown(3)


def test_where_spans_go_to_a_service_they_are_shown_as_well(tmp_path: Path) -> None:
    with Receiver() as receiver:
        ran = run(
            cells("%%latencytrace both\n40 + 2"),
            tmp_path,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        )
        until(lambda: [span for span in receiver.spans if span.name == "both"])

    assert "both · notebook" in ran.shown(1)
    assert ran.value(1) == "42"


def test_spans_of_a_provider_that_the_notebook_sets_are_shown(tmp_path: Path) -> None:
    with Receiver() as receiver:
        ran = run(
            cells(
                "from opentelemetry import trace\n"
                "from opentelemetry.sdk.resources import Resource\n"
                "from opentelemetry.sdk.trace import TracerProvider\n"
                "resource = Resource({'service.name': 'own'})\n"
                "trace.set_tracer_provider(TracerProvider(resource=resource))",
                "%%latencytrace through\ntrace.get_tracer('own').start_span('inner').end()",
            ),
            tmp_path,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.endpoint,
        )

    assert "through · own" in ran.shown(2)
    assert "inner" in ran.shown(2)
