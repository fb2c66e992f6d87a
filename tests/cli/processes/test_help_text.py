"""What `--help` and `--version` say."""

import importlib.metadata

from typer.testing import CliRunner

from latencytrace.cli.app import app
from latencytrace.cli.command_line import help_text
from latencytrace.cli.commands.run import HELP


def example() -> None:
    """Show the first.

    A paragraph that is longer
    than a line.
    Another sentence.

    Example: one
             two
    """


def test_paragraphs_are_lines_and_indented_lines_stay_apart() -> None:
    assert help_text(example).splitlines() == [
        "Show the first.",
        "",
        "A paragraph that is longer than a line. Another sentence.",
        "",
        "Example: one",
        "         two",
    ]


def test_run_reads_its_own_options() -> None:
    said = CliRunner().invoke(app, ["run", "--help"])

    assert (said.exit_code, said.stdout) == (0, f"{HELP}\n")


def test_the_version_is_told() -> None:
    said = CliRunner().invoke(app, ["--version"])

    assert said.exit_code == 0
    assert said.stdout == f"latencytrace {importlib.metadata.version('latencytrace')}\n"
