"""Runs other libraries' own tests, plain and traced, and lists the tests that only fail traced.

    python -m tests.foreign_suites [NAME ...] [--ways run last away] [--kept] [--json]

Each library has a virtual environment and its source distribution below `.peers/foreign`, made
once. Its tests run twice plain, and then traced: below `latencytrace run` with a receiver (run),
with `instrument()` after everything is imported (last), and with nothing that listens at the
endpoint (away). What passed in both plain runs and fails traced is run again, alone; if it fails
again it is a difference. One that passes without our headers (`LATENCYTRACE_PROPAGATE_TO=!*`) is
explained; `suites.toml` explains others. It ends with 1 where there is one that nothing explains.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.support.agent.receiving import Receiver
from tests.support.databases.caches import redis_server
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.ports import free_port
from tests.support.servers.postgres import serving_postgres

HERE: Final = Path(__file__).parent
SUITES: Final[Mapping[str, Mapping[str, object]]] = tomllib.loads(
    (HERE / "suites.toml").read_text()
)
WAYS: Final = ("run", "last", "away")
HEADERS: Final = "it compares all headers that are sent: without ours it passes"
INTERPRETER: Final = "interpreter"  # whose tests are those of the Python that runs this
SUITE_S: Final = 1500  # longer takes no suite; what it wrote until then is compared


@dataclass(frozen=True)
class Suite:
    """One library's tests, or some of them."""

    name: str
    version: str
    requires: Sequence[str]
    tests: Sequence[str]
    options: Sequence[str] = ()
    library: str = ""
    source: str = ""
    server: str = ""
    revision: str = ""
    parts: Sequence[str] = ()
    prepare: Sequence[str] = ()
    folder: str = ""
    uncompiled: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    explained: Mapping[str, str] = field(default_factory=dict)

    def why(self, test: str) -> str | None:
        """Return why a test may fail traced; None: unknown."""
        found = (why for pattern, why in self.explained.items() if re.search(pattern, test))
        return next(found, None)


@dataclass
class Compared:
    """Outcomes of a suite in one way of tracing it."""

    suite: str
    version: str
    way: str
    passed_plain: int
    passed: int
    explained: dict[str, str]
    differences: dict[str, str]  # test: its error


class Place:
    """A library's virtual environment and source."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite = suite
        self.folder = folder / f"{suite.name}-{suite.version}"
        self.python = self.folder / "venv" / "bin" / "python"
        self.source = self.folder / "source"

    def prepare(self, wheel: Path) -> None:
        """Install all, unless it is there; this tree's package is always the newest.

        Raises:
            CalledProcessError: pip could not; it has said why.
        """
        suite = self.suite
        named = f"{suite.library or suite.name}=={suite.version}"
        if not (self.folder / "ready").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            subprocess.run([sys.executable, "-m", "venv", self.python.parent.parent], check=True)
            if suite.source == INTERPRETER:
                self._pip("install", *suite.requires)
                (self.source / "python").mkdir(parents=True)
            else:
                self._pip("install", named, *suite.requires)
                self._fetch() if suite.source else self._unpack(named)
            if suite.prepare:
                prepare = str(self.python), *suite.prepare
                subprocess.run(prepare, cwd=self._where(), check=True, stdout=sys.stderr)
            (self.folder / "ready").touch()
        self._pip("install", "--force-reinstall", "--no-deps", str(wheel))
        self._pip("install", str(wheel))  # what it requires

    def _fetch(self) -> None:
        """Get the library's tests of its repository."""
        suite = self.suite
        clone = self.source / "tests"
        subprocess.run(["git", "init", "--quiet", clone], check=True)
        git = "git", "-c", "advice.detachedHead=false", "-C", clone
        steps = [
            ("remote", "add", "origin", suite.source),
            *([("sparse-checkout", "set", *suite.parts)] if suite.parts else ()),
            (*("fetch", "--quiet", "--depth", "1", "--filter=blob:none", "origin"),
             suite.revision or f"v{suite.version}"),
            ("checkout", "--quiet", "FETCH_HEAD"),
        ]  # fmt: skip
        for step in steps:
            subprocess.run([*git, *step], check=True)

    def _unpack(self, named: str) -> None:
        """Get the library's tests of its source distribution."""
        suite = self.suite
        library, _, _ = named.partition("==")
        only = "--no-binary", library, "--no-deps"
        self._pip("download", *only, "--dest", str(self.folder), named)
        [archive] = self.folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(self.source, filter="data")
        if suite.uncompiled:
            [top] = self.source.iterdir()
            shutil.rmtree(top / suite.uncompiled)

    def _pip(self, *arguments: str) -> None:
        pip = self.python, "-m", "pip", "--disable-pip-version-check", "-qq"
        subprocess.run([*pip, *arguments], check=True, stdout=sys.stderr)

    def _where(self) -> Path:
        """Return the folder that the tests are run in."""
        [top] = (one for one in self.source.iterdir() if one.is_dir())
        return top / self.suite.folder

    def _outcomes(self, way: str) -> Path:
        return self.folder / f"{way}.jsonl"

    def outcomes(
        self, way: str, *, only: Sequence[str] = (), headers: bool = True
    ) -> dict[str, tuple[str, str]]:
        """Run the tests in one way, with our headers or without; return outcomes and errors."""
        written = self._outcomes(way)
        written.unlink(missing_ok=True)
        plugins = HERE / "plugins"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
            **self.suite.settings,
            "OUTCOMES": str(written),
            "PYTHONPATH": str(plugins),
            "LATENCYTRACE_PROPAGATE_TO": "" if headers else "!*",
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
        }
        pytest = [
            *(str(self.python), "-m", "pytest", "-q", "-p", "outcomes"),
            *("-p", "no:cacheprovider", "--continue-on-collection-errors", *self.suite.options),
            *(only or self.suite.tests),
        ]
        with Receiver() as receiver, serving(self.suite.server) as (options, where):
            pytest += options
            environment |= where
            endpoint = NOWHERE if way == "away" else receiver.url
            environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
            if way == "last":
                environment["INSTRUMENTED_LAST"] = "1"
            elif way != "plain":
                run = str(self.python.parent / "latencytrace"), "run", "--"
                pytest = [*run, *pytest]
            else:
                del environment["OTEL_EXPORTER_OTLP_ENDPOINT"]
            with (self.folder / f"{way}.log").open("w") as log:
                try:
                    subprocess.run(
                        pytest, cwd=self._where(), env=environment,
                        stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                        timeout=SUITE_S, check=False,
                    )  # fmt: skip
                except subprocess.TimeoutExpired:
                    log.write(f"\nended after {SUITE_S} s\n")
        return self.written(way)

    def written(self, way: str) -> dict[str, tuple[str, str]]:
        """Return outcomes and errors of the last run in one way."""
        written = self._outcomes(way)
        lines = written.read_text().splitlines() if written.exists() else []
        found: dict[str, tuple[str, str]] = {}
        for line in map(json.loads, lines):
            if found.get(line["test"], ("passed",))[0] != "failed":
                found[line["test"]] = line["outcome"], line["why"]
        return found


@contextmanager
def serving(server: str) -> Iterator[tuple[Sequence[str], Mapping[str, str]]]:
    """Run the server that a suite needs; yields options of pytest and variables that name it."""
    with tempfile.TemporaryDirectory() as folder:
        if server == "redis":
            port = free_port()
            with redis_server(Path(folder), port):
                yield [f"--redis-url=redis://127.0.0.1:{port}/0"], {}
        elif server == "postgres":
            with serving_postgres() as where:
                told = dict(part.split("=", 1) for part in where.split())
                names = {"host": "PGHOST", "user": "PGUSER", "dbname": "PGDATABASE"}
                yield (), {names[key]: value for key, value in told.items()}
        else:
            yield (), {}


def passes(outcomes: Mapping[str, tuple[str, str]], test: str) -> bool:
    """Tell whether a test passed."""
    return outcomes.get(test, ("missing",))[0] == "passed"


def compared(place: Place, ways: Sequence[str], *, kept: bool = False) -> list[Compared]:
    """Run a library's tests in each way; plain, if no earlier run's outcomes are to be kept."""
    suite = place.suite
    before = place.written("plain") if kept else None
    plain = [before] if before else [place.outcomes("plain") for _ in range(2)]
    passed_plain = {test for test in plain[0] if all(passes(outcomes, test) for outcomes in plain)}
    if not passed_plain:
        none = f"no test passes plain: {place.folder / 'plain.log'}"
        return [Compared(suite.name, suite.version, "plain", 0, 0, {}, {"all": none})]
    found = []
    for way in ways:
        traced = place.outcomes(way)
        suspects = sorted(test for test in passed_plain if not passes(traced, test))
        again = place.outcomes(way, only=suspects) if suspects else {}
        differ = {
            test: again.get(test, ("missing", "it did not run"))[1].strip()[-600:]
            for test in suspects
            if not passes(again, test)
        }
        bare = place.outcomes(way, only=list(differ), headers=False) if differ else {}
        explained = {
            test: why
            for test in differ
            if (why := suite.why(test) or (HEADERS if passes(bare, test) else None))
        }
        found.append(
            Compared(
                suite=suite.name,
                version=suite.version,
                way=way,
                passed_plain=len(passed_plain),
                passed=sum(outcome == "passed" for outcome, _ in traced.values()),
                explained=explained,
                differences={test: why for test, why in differ.items() if test not in explained},
            )
        )
    return found


def built(folder: Path) -> Path:
    """Build this tree's wheel."""
    wheels = folder / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    root = HERE.parent.parent
    build = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq", "wheel")
    subprocess.run(
        [*build, "--no-deps", "--wheel-dir", wheels, root], check=True, stdout=sys.stderr
    )
    [wheel] = wheels.glob("*.whl")
    return wheel


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*SUITES, []], metavar="NAME")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--folder", type=Path, default=Path(".peers/foreign"))
    parser.add_argument("--kept", action="store_true", help="the last plain run's outcomes")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    wheel = built(folder)
    rows: list[Compared] = []
    for name in asked.names or SUITES:
        place = Place(Suite(name=name, **SUITES[name]), folder)  # type: ignore[arg-type]
        print(f"{name} {place.suite.version}", file=sys.stderr, flush=True)  # noqa: T201
        place.prepare(wheel)
        found = compared(place, asked.ways, kept=asked.kept)
        rows += found
        for row in found:
            shown(row)
    if asked.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))  # noqa: T201
    return 1 if any(row.differences for row in rows) else 0


def shown(row: Compared) -> None:
    """Print a way's row and its differences."""
    print(  # noqa: T201
        f"{row.suite:15} {row.version:9} {row.way:5} {row.passed_plain:6} pass plain, "
        f"{len(row.differences):3} only plain, {len(row.explained):3} explained",
        file=sys.stderr,
        flush=True,
    )
    for why, tests in Counter(row.explained.values()).items():
        print(f"    {tests}: {why}", file=sys.stderr, flush=True)  # noqa: T201
    for test, error in row.differences.items():
        last = error.splitlines()[-1] if error else ""
        print(f"    {test}\n        {last}", file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
