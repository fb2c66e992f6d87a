"""`latencytrace doctor` where only the agent is installed: plain lines, and no Typer."""

import argparse
import json
import sys
from collections.abc import Sequence

from latencytrace.cli.doctor_checks.report import count_wrong, doctor_findings, document, lines
from latencytrace.cli.pictures.lines import say


def doctor(arguments: Sequence[str]) -> int:
    """Run the command with its arguments; return the exit code."""
    ours = argparse.ArgumentParser(prog="latencytrace doctor", description=__doc__)
    ours.add_argument("--all", action="store_true", help="say what is fine, and notes, as well")
    ours.add_argument("--json", action="store_true", help="print the findings as JSON")
    ours.add_argument("--read-imports", action="store_true", help=argparse.SUPPRESS)
    ours.add_argument("--url", help="the service's address")
    ours.add_argument("command", nargs=argparse.REMAINDER, metavar="[-- COMMAND]")
    asked = ours.parse_args(arguments)
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    modules = frozenset(sys.stdin.read().split()) if asked.read_imports else None
    findings = list(doctor_findings(command, modules, asked.url))
    if asked.json:
        say(json.dumps(document(findings)))
    else:
        for line in lines(findings, everything=asked.all):
            say(line.text)
    return 1 if count_wrong(findings) else 0
