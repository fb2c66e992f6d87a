"""A program of ours that runs beside us: what it is started with."""

from pathlib import Path

import pytest

from latencytrace.cli.processes.background_program import address_of, service_program


@pytest.mark.parametrize("listen", [address_of("http://[::1]:9000"), "[::]:9000"])
def test_a_service_listens_where_it_is_asked_to(listen: str, tmp_path: Path) -> None:
    program = service_program(
        folder=None,
        listen=listen,
        endpoint="http://127.0.0.1:4318",
        log=tmp_path / "log",
    )

    assert program.command[program.command.index("--listen") + 1] == listen


def test_the_address_of_a_url_has_its_host_and_port() -> None:
    assert address_of("http://[::1]:9000") == "[::1]:9000"
    assert address_of("http://127.0.0.1:9000/") == "127.0.0.1:9000"
