"""Event loops and workers that were held while requests waited, as `doctor` says it."""

from collections.abc import Iterator
from typing import Final

from latencytrace.model import Stage
from latencytrace.model.texts.units import share
from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.answers.findings.finding import Finding, Verdict

ABOUT: Final = "requests"
_NOTICED: Final = 0.05  # of the time of requests, from which on it is worth a word
_FIXES: Final = {  # by the beginning of the part's name
    "event loop held by ": "call what holds it by `asyncio.to_thread`, or make the route a `def`",
    "worker held by ": "start more workers or threads, or make what holds them shorter",
}


def held_findings(document: BreakdownDocument) -> Iterator[Finding]:
    """Say what most requests waited for before a thread could take them up."""
    for row in document["stages"]:
        for part in row["parts"] if row["stage"] == Stage.QUEUE else ():
            for beginning, fix in _FIXES.items():
                if part["name"].startswith(beginning) and part["share_ratio"] >= _NOTICED:
                    waited = share(part["share_ratio"])
                    yield Finding(
                        about=ABOUT,
                        verdict=Verdict.NOTE,
                        what=f"requests wait {waited} of their time unread: {part['name']}",
                        fix=fix,
                    )
