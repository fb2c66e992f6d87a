"""`latencytrace doctor`: what is traced here, what is not, why, and what mends it."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from latencytrace.cli.doctor_checks.report import count_wrong, doctor_findings, document, lines
from latencytrace.cli.pictures.terminal import say_document, screen
from latencytrace.cli.processes import options
from latencytrace.service.answers.findings.finding import Finding, Verdict

STYLES = {Verdict.FINE: "green", Verdict.NOTE: "", Verdict.WRONG: "bold red", None: "bold"}


def doctor(
    *,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="Look at the Python that would run it."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Say what is fine, and notes, as well.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    read_imports: Annotated[bool, typer.Option(hidden=True)] = False,
    url: options.Url = None,
) -> None:
    """Say what is wrong with tracing, each cause once with its fix.

    Looks at what is installed, at the environment and at the service; runs nothing of the
    program. Exit code 1 if something is wrong.

    Example: latencytrace doctor -- uvicorn app:app
    """
    modules = frozenset(sys.stdin.read().split()) if read_imports else None
    findings = list(doctor_findings(command or [], modules, url))
    if as_json:
        say_document(document(findings))
    else:
        show_findings(findings, screen(), everything=everything)
    if count_wrong(findings):
        raise typer.Exit(1)


def show_findings(findings: Sequence[Finding], console: Console, *, everything: bool) -> None:
    """Print the report in colour."""
    for line in lines(findings, everything=everything):
        style = "cyan" if line.is_fix else STYLES[line.verdict]
        console.print(Text(line.text, style), soft_wrap=True)
