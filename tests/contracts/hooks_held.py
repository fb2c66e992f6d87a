"""Tells which hooks were held to their contract, and with which library, from pytest's reports.

    python -m tests.contracts.hooks_held REPORT.xml…

It fails if a hook was held to it in none of them: where its library is absent, tests are skipped.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET  # of reports that pytest wrote here

from latencytrace.plugins import HOOKS, plugins

WITH = "library"  # the property of a test that was run with one
_OF_A_HOOK = re.compile(r"\[(\w+)\]$")


@dataclass(frozen=True, slots=True)
class Report:
    """One run of pytest."""

    name: str
    passed: int
    skipped: int
    failed: tuple[str, ...]
    libraries: dict[str, str]  # of each hook that was held to the contract


def read(path: Path) -> Report:
    """A report, as `--junitxml` writes it."""
    tests = list(ET.parse(path).iter("testcase"))  # noqa: S314 - ours
    outcomes = [_outcome(test) for test in tests]
    return Report(
        name=path.stem,
        passed=outcomes.count("passed"),
        skipped=outcomes.count("skipped"),
        failed=tuple(
            test.get("name", "")
            for test, how in zip(tests, outcomes, strict=True)
            if how == "failed"
        ),
        libraries=dict(_libraries(tests)),
    )


def _outcome(test: ET.Element) -> str:
    if test.find("failure") is not None or test.find("error") is not None:
        return "failed"
    return "passed" if test.find("skipped") is None else "skipped"


def _libraries(tests: Iterable[ET.Element]) -> Iterator[tuple[str, str]]:
    for test in tests:
        hook = _OF_A_HOOK.search(test.get("name", ""))
        for noted in test.iter("property"):
            if hook and noted.get("name") == WITH:
                yield hook[1], noted.get("value", "")


def told(reports: Iterable[Report], hooks: Iterable[str]) -> tuple[str, list[str]]:
    """Tables for a page of documentation, and what is wrong."""
    versions = defaultdict[str, set[str]](set)
    runs, wrong = [], []
    for report in reports:
        runs.append(f"| {report.name} | {report.passed} | {report.skipped} |")
        wrong += [f"{report.name}: {test} failed" for test in report.failed]
        for hook, library in report.libraries.items():
            versions[hook].add(library)
    wrong += [f"{hook}: held to its contract nowhere" for hook in hooks if hook not in versions]
    rows = [f"| `{hook}` | {'; '.join(sorted(versions[hook]))} |" for hook in sorted(versions)]
    heads = ["| run | passed | skipped |", "| --- | --- | --- |"]
    return "\n".join(
        [*heads, *runs, "", "| hook | held to its contract with |", "| --- | --- |", *rows]
    ), wrong


def main(paths: list[str]) -> int:
    """Print it; the exit code."""
    text, wrong = told(
        (read(Path(path)) for path in paths), sorted(plugin.name for plugin in plugins(HOOKS))
    )
    print(text)  # noqa: T201 - a command
    for line in wrong:
        print(line, file=sys.stderr)  # noqa: T201 - likewise
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
