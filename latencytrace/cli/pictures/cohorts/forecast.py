"""A cohort as it would be if a stage were faster."""

from typing import cast

from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.pictures.bars import table
from latencytrace.model.texts.units import count, duration, share
from latencytrace.service.answers.compare_documents import WhatifDocument
from latencytrace.service.answers.sentences.whatif import notes


def picture(document: WhatifDocument, what: str) -> list[RenderableType]:
    """The forecast, and what it rests on."""
    drawn = table("end to end", "now", "then", "gain", left=("end to end",))
    for level, pair in (document["duration_ns"] or {}).items():
        found = cast("dict[str, int]", pair)
        gain_ns = found["now"] - found["then"]
        gained = f"{duration(gain_ns)} ({share(gain_ns / max(found['now'], 1))})"
        drawn.add_row(level, duration(found["now"]), duration(found["then"]), gained)
    title = f"If {document['stage']} {what}"
    return [
        Text(f"{title} · {count(document['requests'], 'request')}", "bold"),
        drawn,
        "",
        *(Text(note, "dim") for note in notes(document)),
    ]
