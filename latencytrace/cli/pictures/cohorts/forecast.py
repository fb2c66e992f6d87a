"""A cohort as it would be if a stage were faster."""

from typing import cast

from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.pictures.bars import table
from latencytrace.model.texts.units import count, duration, share
from latencytrace.service.answers.compare_documents import WhatifDocument


def picture(document: WhatifDocument, what: str) -> list[RenderableType]:
    """The forecast, and what it rests on."""
    drawn = table("end to end", "now", "then", "gain", left=("end to end",))
    for level, pair in (document["duration_ns"] or {}).items():
        found = cast("dict[str, int]", pair)
        gain_ns = found["now"] - found["then"]
        gained = f"{duration(gain_ns)} ({share(gain_ns / max(found['now'], 1))})"
        drawn.add_row(level, duration(found["now"]), duration(found["then"]), gained)
    title = f"If {document['stage']} took {what}"
    return [
        Text(f"{title} · {count(document['requests'], 'request')}", "bold"),
        drawn,
        "",
        *(Text(note, "dim") for note in _notes(document)),
    ]


def _notes(document: WhatifDocument) -> list[str]:
    replayed, by_spans = document["replayed_requests"], document["replayed_spans"]
    having = document["stage_requests"]
    notes = [f"{having:,} of {count(replayed, 'replayed request')} waited for this stage."]
    if by_spans < replayed:
        notes.append(
            f"Of {replayed - by_spans:,} of them no spans are kept, or too many to replay (over "
            "2,000): what ran beside the stage is not known there, and the gain may be smaller."
        )
    error = document["error_ratio"]
    if error is None:
        notes.append("Too few requests have the stage for a back-test.")
    else:
        notes.append(f"Such forecasts of this cohort's own requests were off by {share(error)}.")
    return notes
