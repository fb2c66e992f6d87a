"""One word for one thing: the field's term, not one of our own."""

import re
from pathlib import Path

from tests.support.over_all import over_all

ROOT = Path(__file__).parents[2]
TERMS = {  # not this: but that
    r"(?<!true_)divid(?:e|es|ed|ing)(?! by|=)": "attribute, split, apportion or partition",
    r"division": "attribution",
    r"told": "reported, known or sent",
    r"heard": "received",
    r"tellers?": "the spans that report it",
    r"promis(?:e|es|ed|ing)": "objective, contract or guarantee",
    r"breaths?": "GilYield",
    r"fates?": "outcome",
    r"heap of \w*spans": "unordered spans",
    r"late_?spans|LateSpans": "PendingDeviceSpans",
}
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / "latencytrace").rglob("*.py"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
    )
)


@over_all("file", FILES)
def test_a_thing_has_the_fields_name(file: str) -> None:
    text = (ROOT / file).read_text()
    found = [
        f"{word.group()}: {term}"
        for own, term in TERMS.items()
        for word in re.finditer(rf"(?<![a-zA-Z])(?:{own})(?![a-zA-Z])", text)
    ]

    assert found == []
