"""Versions of Typer and click that do not go together."""

import pytest

from latencytrace.cli.processes.without_extra import typer_fault


@pytest.mark.parametrize(
    ("typer", "click"), [("0.12.5", "8.1.8"), ("0.13.1", "8.5.1"), ("0.29.2", "8.5.1")]
)
def test_versions_that_read_a_command_line_rightly_have_no_fault(typer: str, click: str) -> None:
    assert typer_fault({"typer": typer, "click": click}.__getitem__) is None


@pytest.mark.parametrize("click", ["8.2.0", "8.5.1", "9.0"])
def test_an_old_typer_with_a_new_click_is_told_with_what_mends_it(click: str) -> None:
    fault = typer_fault({"typer": "0.12.5", "click": click}.__getitem__)

    assert fault is not None
    assert fault.startswith(f"typer 0.12.5 misreads every command line with click {click}")
    assert fault.endswith("pip install 'click<8.2'")


def test_what_is_installed_here_has_no_fault() -> None:
    assert typer_fault() is None
