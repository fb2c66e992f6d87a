"""A change's fragment is one that the next release takes up, and releases are numbered alike."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = PROJECT["project"]["version"]
KINDS = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
NAME = re.compile(rf"\+[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(sorted(KINDS))})\.md")
OTHERS = {"README.md", "template.md"}
NUMBERED = re.compile(r"latencytrace(?:-agent)?:(\d+\.[\w.]+)|[vV]ersion: \"?(\d+\.\d+\.\d+)\b")


def faults(folder: Path) -> list[str]:
    """The fragments that are named wrongly or hold no text of their own."""
    fragments = [path for path in sorted(folder.iterdir()) if path.name not in OTHERS]
    return [
        path.name
        for path in fragments
        if not NAME.fullmatch(path.name) or not re.match(r"(?![*#-])\S", path.read_text())
    ]


def test_every_fragment_is_named_by_what_it_is_and_holds_sentences() -> None:
    assert faults(ROOT / "docs" / "changelog.d") == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("late-spans.fixed.md", "A span."),  # taken for the number of an issue
        ("+late-spans.mended.md", "A span."),
        ("+late_spans.fixed.md", "A span."),
        ("+late-spans.fixed.txt", "A span."),
        ("+late-spans.fixed.md", "* A span."),
        ("+late-spans.fixed.md", ""),
    ],
)
def test_a_fragment_that_no_release_takes_up_is_found(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / "+good.added.md").write_text("It traces.\n")
    (tmp_path / name).write_text(text)

    assert faults(tmp_path) == [name]


def test_a_release_gathers_the_fragments_below_the_line_and_by_kind(tmp_path: Path) -> None:
    pytest.importorskip("towncrier", reason="`make test` installs it")
    for file in ("pyproject.toml", "docs/changelog.d/template.md", "docs/pages/changelog.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text((ROOT / file).read_text())
    fragments = tmp_path / "docs" / "changelog.d"
    (fragments / "+late-spans.fixed.md").write_text("A late span\ncounts once.\n")
    (fragments / "+kafka.added.md").write_text("A hook for [Kafka](hooks.md).\n")

    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    build = ["build", "--version", "99.0.0", "--date", "2099-01-01", "--keep", "--dir"]
    subprocess.run(
        [sys.executable, "-m", "towncrier", *build, tmp_path], check=True, capture_output=True
    )

    written = (tmp_path / "docs" / "pages" / "changelog.md").read_text()
    assert (
        "below this line -->\n"
        "\n## 99.0.0 (2099-01-01)\n"
        "\n### Added\n\n* A hook for [Kafka](hooks.md).\n"
        "\n### Fixed\n\n* A late span\n  counts once.\n"
        f"\n## {VERSION} ("
    ) in written


def test_the_newest_release_has_the_version_of_the_package_and_a_date() -> None:
    releases = re.findall(
        r"^## (\S+)(.*)$", (ROOT / "docs" / "pages" / "changelog.md").read_text(), re.MULTILINE
    )

    assert releases[0][0] == VERSION
    assert all(re.fullmatch(r" \(\d{4}-\d\d-\d\d\)", date) for _, date in releases)


def test_what_is_deployed_has_the_version_of_the_package() -> None:
    files = [path for path in (ROOT / "examples" / "deployment").rglob("*") if path.is_file()]
    numbers = {
        one or other
        for path in files
        for one, other in NUMBERED.findall(path.read_text())
        if one or other
    }

    assert numbers == {VERSION}
