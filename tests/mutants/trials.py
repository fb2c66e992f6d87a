"""Tries faults, one at a time, in a copy of the checkout: do its tests fail?"""

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path, PurePosixPath
from typing import Final

from tests.mutants.faults import Fault
from tests.support.repository.tree import ROOT, strangers, tracked

CPU_LIMIT_S: Final = 300  # of one process: what takes more goes round for ever
LIMIT_S: Final = 3600  # on a busy machine; what waits for ever
MOST_USERS: Final = 6
MOST_FURTHER: Final = 64  # test files, tried where the nearer ones notice nothing
NEIGHBOURS: Final = {  # what a room is held against as a whole: how their paths begin
    "analysis": (
        "tests/analysis/test_build_trace.py",
        "tests/analysis/test_engines.py",
        "tests/analysis/test_against_truth.py",
    ),
    "agent/spans": ("tests/agent/test_conformance.py", "tests/agent/export/test_otlp_traces.py"),
    "service/sql_store": (
        "tests/service/stores/chdb/",
        "tests/contracts/test_every_retention.py",
        "tests/contracts/test_every_store.py",
    ),
    "service/objectives": ("tests/service/alerting/", "tests/service/test_detection.py"),
}
_FAILED: Final = re.compile(rb"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
_SPENT: Final = {-signal.SIGXCPU, -signal.SIGKILL}  # how a process ends that took `CPU_LIMIT_S`
_NOT_TRIED: Final = ("tests/end_to_end/", "tests/benchmarks/", "tests/stress/", "tests/mutants/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A fault, and what the tests made of it."""

    fault: Fault
    outcome: str  # killed | endless | alive | unclear
    by: str  # the test that failed first
    took_s: float


class Copy:
    """A copy of the checkout, with what is compiled in it; faults are made there alone.

    Args:
        folder: An empty one, outside the checkout.
    """

    def __init__(self, folder: Path) -> None:
        self._root = folder
        compiled = {
            path.relative_to(ROOT).as_posix() for path in ROOT.glob("latencytrace/**/*.so")
        }
        self._files = sorted({*tracked(), *strangers(), *compiled})
        for file in self._files:
            if (ROOT / file).is_file():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, folder / file)
        self._texts = {
            file: (folder / file).read_text()
            for file in self._files
            if file.endswith(".py") and file.startswith(("latencytrace/", "tests/"))
        }

    def tests_of(self, file: str) -> list[str]:
        """Return the test files that have to notice a fault of a source.

        The one that mirrors it comes first, then those that import it, those that mirror what
        imports it, those of its folder, and the neighbours of its room.
        """
        texts, users = self._texts, self._users(file)
        rooms = (str(one) for one in PurePosixPath(_mirror(file)).parents)
        in_room = ([one for one in texts if one.rpartition("/")[0] == room] for room in rooms)
        found = [
            _mirror(file),
            *users,
            *[one for one in map(_mirror, users) if one in texts][:MOST_USERS],
            *next(filter(None, in_room), ()),  # a small room's tests are one file above it
            *(
                one
                for near in NEIGHBOURS
                if f"/{near}/" in file
                for begins in NEIGHBOURS[near]
                for one in texts
                if one.startswith(begins)
            ),
        ]
        return [one for one in dict.fromkeys(found) if one in texts and _may_run(one)]

    def further_tests_of(self, file: str) -> list[str]:
        """Return the test files that import what imports a source, unless `tests_of` has them."""
        nearer = self.tests_of(file)
        found = dict.fromkeys(one for user in self._users(file) for one in self._users(user))
        return [one for one in found if one not in nearer and _may_run(one)][:MOST_FURTHER]

    def _users(self, file: str) -> list[str]:
        """Return the sources and tests that import a file."""
        module = file.removesuffix(".py").replace("/", ".")
        importing = re.compile(rf"\b(?:from|import) {re.escape(module)}\b")
        return [one for one in self._texts if importing.search(self._texts[one])]

    def tried(self, fault: Fault) -> Trial:
        """Make the fault, run the tests that have to notice it, and mend it."""
        path = self._root / fault.file
        source = path.read_bytes()
        began, outcome, by = time.monotonic(), "alive", ""
        try:
            self._write(path, fault.applied(source))
            nearer, further = self.tests_of(fault.file), self.further_tests_of(fault.file)
            # Most are noticed by the first file: the others are not even imported for those.
            for files in filter(None, (nearer[:1], nearer[1:], further)):
                outcome, by = self.run(files, plain=fault.plain)
                if outcome != "alive":
                    break
        finally:
            self._write(path, source)
        if by and self.run([by], plain=fault.plain)[0] != "alive":
            outcome = "unclear"  # it fails without the fault, too
        return Trial(fault=fault, outcome=outcome, by=by, took_s=time.monotonic() - began)

    def _write(self, path: Path, source: bytes) -> None:
        path.write_bytes(source)
        # Its age in seconds and its size may be those of the version before.
        Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def run(self, files: Iterable[str], *, plain: bool) -> tuple[str, str]:
        """Run tests; return the outcome, and the test that failed first.

        Args:
            files: Test files; the first are run first.
            plain: Whether nothing compiled may be used.
        """
        environment = {**os.environ, "PYTHONPATH": str(self._root)}
        if plain:
            environment["LATENCYTRACE_COMPILED"] = "0"
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:randomly"]
        command += ["-p", "no:cacheprovider", "-m", "not long and not llama_cpp and not batchers"]
        with subprocess.Popen(
            [*command, *files],
            cwd=self._root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as running:
            resource.prlimit(running.pid, resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
            try:
                said, _ = running.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, 9)
                return "endless", ""
        if running.returncode in _SPENT:
            return "endless", ""
        if running.returncode in {0, 5}:  # 5: it has no tests
            return "alive", ""
        failed = _FAILED.search(said)
        return "killed", failed[1].decode() if failed else ""


def _may_run(file: str) -> bool:
    is_test = file.startswith("tests/") and PurePosixPath(file).name.startswith("test_")
    return is_test and not file.startswith(_NOT_TRIED)


def _mirror(file: str) -> str:
    """Return where the tests of a source are."""
    if file.startswith("tests/"):
        return file
    folder, _, name = file.removeprefix("latencytrace/").rpartition("/")
    return f"tests/{folder}/test_{name}" if folder else f"tests/test_{name}"
