"""The files of the checkout, as git sees them."""

import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[3]

# A kind is added here by whoever commits its first file. What programs write (`.log`, `.db`,
# `.rdb`, `.sqlite3`, `.bin`, `.parquet`, …) belongs in a temporary folder of its test.
_KINDS = frozenset(
    {".c", ".css", ".html", ".js", ".json", ".md", ".png", ".py", ".svg", ".toml", ".ts", ".txt"}
    | {".h", ".sh", ".typed", ".yaml"}
    | {".Dockerfile", ".conf", ".ipynb", ".service"}
)
_BY_NAME = frozenset(
    {".ci/run", ".gitignore", "LICENSE", "Makefile", "examples/deployment/Dockerfile"}
)
_FOLDERS = frozenset({".ci", ".github", "dashboards", "docs", "examples", "latencytrace", "tests"})
_IN_ROOT = frozenset(
    {".gitignore", ".pre-commit-config.yaml", "CONTRIBUTING.md", "LICENSE", "Makefile"}
    | {"README.md", "SECURITY.md", "pyproject.toml"}
)


def listed(root: Path, *flags: str) -> frozenset[str]:
    """The files that `git ls-files` names; none where there is no git, or no checkout."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", *flags]
    try:
        said = subprocess.run(command, cwd=root, capture_output=True, check=False)
    except FileNotFoundError:
        return frozenset()
    return frozenset(filter(None, said.stdout.decode().split("\0")))


def tracked(root: Path = ROOT) -> frozenset[str]:
    """What is committed, or about to be."""
    return listed(root)


def strangers(root: Path = ROOT) -> frozenset[str]:
    """What is neither tracked nor ignored."""
    return listed(root, "--others", "--exclude-standard")


def out_of_place(files: Iterable[str]) -> list[str]:
    """Files that are no sources: of a kind that nobody writes by hand, or outside our folders.

    A source that somebody adds while tests run is not among them.
    """
    return sorted(file for file in files if not _is_source(PurePosixPath(file)))


def _is_source(file: PurePosixPath) -> bool:
    if len(file.parts) == 1:
        return str(file) in _IN_ROOT
    return file.parts[0] in _FOLDERS and (file.suffix in _KINDS or str(file) in _BY_NAME)
