"""`latencytrace doctor`: what is traced here, what is not, why, and what mends it."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from latencytrace.cli.doctor_checks.command import ABOUT as COMMAND
from latencytrace.cli.doctor_checks.command import program
from latencytrace.cli.doctor_checks.environment import environment_findings
from latencytrace.cli.doctor_checks.service import service_findings
from latencytrace.cli.doctor_checks.source_imports import imported_modules
from latencytrace.cli.doctor_checks.used import Used
from latencytrace.cli.pictures.terminal import say_document, screen
from latencytrace.cli.processes import options
from latencytrace.cli.source.service_address import service_address
from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import text_shown
from latencytrace.model.texts.units import count
from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.settings import (
    AgentSettings,
    agent_settings,
    service_token,
    tracing_variables,
    without_our_folder,
)

ELSEWHERE_TIMEOUT_S = 60
USAGE = 2  # the exit code of a command line that cannot be read
MARKS = {
    Verdict.FINE: ("✓", "green"),
    Verdict.NOTE: ("·", "dim"),
    Verdict.WRONG: ("✗", "bold red"),
}
IS_INSTALLED = "import importlib.util as i, sys; sys.exit(i.find_spec('latencytrace') is None)"


def doctor(
    *,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND]", help="Look at the Python that would run it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    read_imports: Annotated[bool, typer.Option(hidden=True)] = False,
    url: options.Url = None,
) -> None:
    """Say what is traced, what is not and why, each with the one line that mends it.

    Looks at what is installed, at the environment and at the service; runs nothing of the
    program. Exit code 1 if something is wrong.

    Example: latencytrace doctor -- uvicorn app:app
    """
    modules = frozenset(sys.stdin.read().split()) if read_imports else None
    findings = [_shown(one) for one in _findings(command or [], modules, url)]
    wrong = sum(finding.verdict is Verdict.WRONG for finding in findings)
    if as_json:
        listed = [
            {"about": f.about, "verdict": f.verdict.value, "what": f.what, "fix": f.fix}
            for f in findings
        ]
        say_document({"findings": listed, "wrong": wrong})
    else:
        show_findings(findings, wrong, screen())
    if wrong:
        raise typer.Exit(1)


def _findings(
    command: Sequence[str], modules: frozenset[str] | None, url: str | None
) -> Iterator[Finding]:
    address = service_address(url)
    if command:
        looked_at = program(command)
        yield from looked_at.findings
        if looked_at.interpreter is None:
            return
        modules = imported_modules(command, Path.cwd())
        if looked_at.interpreter.parent != Path(sys.executable).parent:
            yield from _elsewhere(looked_at.interpreter, modules, url)
            return
    from latencytrace.cli.doctor_checks.gpu import gpu_findings  # noqa: PLC0415 - likewise
    from latencytrace.cli.doctor_checks.installed import (  # noqa: PLC0415 - other commands do without the agent
        installed_findings,
    )

    settings = _settings()
    yield from installed_findings(
        settings.hooks if settings is not None else None,
        Used(modules),
        torch_named=settings is not None and bool(settings.torch_modules),
    )
    yield from gpu_findings(wanted=settings.gpu if settings is not None else None)
    yield from environment_findings(tracing_variables(), agent_settings)
    yield from service_findings(address, service_token(), settings, named=url is not None)


def _shown(finding: Finding) -> Finding:
    """A finding without the passwords of the addresses in it."""
    fix = None if finding.fix is None else text_shown(finding.fix)
    return replace(finding, what=text_shown(finding.what), fix=fix)


def _settings() -> AgentSettings | None:
    try:
        return agent_settings()
    except SettingsError:  # a finding of its own
        return None


def _elsewhere(
    interpreter: Path, modules: frozenset[str] | None, url: str | None
) -> Iterator[Finding]:
    """Findings of another interpreter's latencytrace, about a program that imports these."""
    if _run(interpreter, "-c", IS_INSTALLED).returncode:
        yield Finding(
            about=COMMAND,
            verdict=Verdict.WRONG,
            what=f"latencytrace is not installed for {interpreter}, which would run it",
            fix=f"{interpreter} -m pip install latencytrace",
        )
        return
    asked = ("-m", "latencytrace", "doctor", "--json", *(() if url is None else ("--url", url)))
    said = None
    if modules is not None:
        said = _run(interpreter, *asked, "--read-imports", sent="\n".join(sorted(modules)))
    if said is None or said.returncode == USAGE:  # an older one, that knows no such flag
        said = _run(interpreter, *asked)
    try:
        for found in json.loads(said.stdout)["findings"]:
            yield Finding(**{**found, "verdict": Verdict(found["verdict"])})
    except (ValueError, LookupError, TypeError):
        why = (said.stderr.strip().splitlines() or ["it says nothing"])[-1]
        yield Finding(
            about=COMMAND,
            verdict=Verdict.WRONG,
            what=f"the latencytrace of {interpreter} does not run: {why}",
            fix=f"{interpreter} -m pip install --upgrade 'latencytrace[cli]'",
        )


def _run(interpreter: Path, *arguments: str, sent: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - the interpreter that the user named
        [interpreter, *arguments],
        capture_output=True,
        check=False,
        env=without_our_folder(),
        input=sent,
        text=True,
        timeout=ELSEWHERE_TIMEOUT_S,
    )


def show_findings(findings: Sequence[Finding], wrong: int, console: Console) -> None:
    """Print what was found, all that is about one thing below its name."""
    by_about: dict[str, list[Finding]] = {}
    for finding in findings:
        by_about.setdefault(finding.about, []).append(finding)
    for about, found in by_about.items():
        console.print(Text(about, "bold"))
        for finding in found:
            mark, style = MARKS[finding.verdict]
            console.print(Text.assemble("  ", (f"{mark} ", style), finding.what), soft_wrap=True)
            if finding.fix is not None:
                console.print(Text(f"    → {finding.fix}", "cyan"), soft_wrap=True)
    summary = f"{count(wrong, 'thing is', 'things are')} wrong." if wrong else "Nothing is wrong."
    console.print()
    console.print(Text(summary, "bold red" if wrong else "bold green"))
