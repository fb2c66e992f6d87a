"""A program of ours that runs beside us: what it is started with."""

from pathlib import Path

import pytest

from latencytrace.cli.processes.background_program import service_program


@pytest.mark.parametrize(
    ("listen", "given"), [(None, "[::1]:9000"), ("[::]:9000", "[::]:9000")], ids=["only", "too"]
)
def test_a_service_listens_where_it_answers_or_more_widely(
    listen: str | None, given: str, tmp_path: Path
) -> None:
    program = service_program(
        folder=None,
        url="http://[::1]:9000",
        endpoint="http://127.0.0.1:4318",
        log=tmp_path / "log",
        listen=listen,
    )

    assert program.command[program.command.index("--listen") + 1] == given
