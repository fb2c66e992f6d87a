"""Findings of `doctor` and their lines; needs only what the agent needs."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from latencytrace.cli.doctor_checks.command import ABOUT as COMMAND
from latencytrace.cli.doctor_checks.command import program
from latencytrace.cli.doctor_checks.environment import environment_findings
from latencytrace.cli.doctor_checks.source_imports import imported_modules
from latencytrace.cli.doctor_checks.unhooked import Used
from latencytrace.cli.processes.local_service import listens
from latencytrace.cli.source.service_address import service_address
from latencytrace.errors import SettingsError
from latencytrace.model.texts.secrets import text_shown
from latencytrace.model.texts.units import count
from latencytrace.service.answers.findings.counted import ABOUT as SERVICE
from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.settings import (
    AgentSettings,
    agent_settings,
    service_token,
    tracing_variables,
    without_our_folder,
)

ELSEWHERE_TIMEOUT_S: Final = 60
USAGE: Final = 2  # the exit code of a command line that cannot be read
IS_INSTALLED: Final = (
    "import importlib.util as i, sys; sys.exit(i.find_spec('latencytrace') is None)"
)
ORDER: Final = (Verdict.WRONG, Verdict.NOTE, Verdict.FINE)
MARKS: Final = {Verdict.FINE: "✓", Verdict.NOTE: "·", Verdict.WRONG: "✗"}


class Line(NamedTuple):
    """A line of the report."""

    text: str
    verdict: Verdict | None = None  # None: of a heading
    is_fix: bool = False


def document(findings: Sequence[Finding]) -> dict[str, object]:
    return {
        "findings": [
            {"about": f.about, "verdict": f.verdict.value, "what": f.what, "fix": f.fix}
            for f in findings
        ],
        "wrong": count_wrong(findings),
    }


def count_wrong(findings: Iterable[Finding]) -> int:
    return sum(one.verdict is Verdict.WRONG for one in findings)


def lines(findings: Sequence[Finding], *, everything: bool) -> Iterator[Line]:
    """The report: what is wrong, each cause once with its fix, and how much else there is.

    Args:
        everything: Whether notes and what is fine are said as well, below what is wrong.
    """
    distinct = dict.fromkeys(findings)
    wrong, notes, fine = ([one for one in distinct if one.verdict is each] for each in ORDER)
    yield from _listed(wrong)
    if everything:
        yield from _listed([*notes, *fine])
    elif wrong or notes or fine:
        said = ((notes, "note"), (fine, "check passed"))
        others = [count(len(these), one, _many(one)) for these, one in said if these]
        if others:
            yield Line(f"{', '.join(others)}; all of it: latencytrace doctor --all")
    yield Line("")
    if wrong:
        yield Line(f"{count(len(wrong), 'problem', 'problems')} found.", Verdict.WRONG)
    else:
        yield Line("No problems found.", Verdict.FINE)


def _many(one: str) -> str:
    return "checks passed" if one == "check passed" else f"{one}s"


def _listed(findings: Iterable[Finding]) -> Iterator[Line]:
    by_about: dict[str, dict[Finding, None]] = {}
    for finding in findings:
        by_about.setdefault(finding.about, {})[finding] = None
    for about, found in by_about.items():
        yield Line(about)
        for finding in found:
            yield Line(f"  {MARKS[finding.verdict]} {finding.what}", finding.verdict)
            if finding.fix is not None:
                yield Line(f"    → {finding.fix}", is_fix=True)


def doctor_findings(
    command: Sequence[str], modules: frozenset[str] | None, url: str | None
) -> Iterator[Finding]:
    """Look at what is installed, at the environment and at the service.

    Args:
        command: A program and its arguments, to check its Python; empty: to check this one.
        modules: What the program imports; None: it is not known.
        url: Address of the service; None: the usual one.
    """
    return map(_shown, _found(command, modules, url))


def _found(
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
    from latencytrace.cli.doctor_checks.environment import gpu_findings
    from latencytrace.cli.doctor_checks.installed import (
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
    try:
        from latencytrace.cli.doctor_checks.service import service_findings
    except ImportError:
        yield from _without_client(settings)
    else:
        yield from service_findings(address, service_token(), settings, named=url is not None)


def _without_client(settings: AgentSettings | None) -> Iterator[Finding]:
    """Judge where spans go, as far as can be seen without the extra that asks a service."""
    if settings is None or settings.disabled:
        return
    if listens(settings.traces_url):
        yield Finding.fine(SERVICE, f"{settings.traces_url} is listening")
    else:
        yield Finding.wrong(
            SERVICE,
            f"nothing is listening at {settings.traces_url}: spans are lost",
            "export OTEL_EXPORTER_OTLP_ENDPOINT=… as the service has it (port 4318)",
        )
    yield Finding.note(
        SERVICE,
        "the service itself is not asked, for want of an extra",
        "pip install 'latencytrace[cli]'",
    )


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
        yield Finding.wrong(
            COMMAND,
            f"latencytrace is not installed for {interpreter}, which would run it",
            f"{interpreter} -m pip install latencytrace",
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
        yield Finding.wrong(
            COMMAND,
            f"the latencytrace of {interpreter} does not run: {why}",
            f"{interpreter} -m pip install --upgrade 'latencytrace[cli]'",
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
