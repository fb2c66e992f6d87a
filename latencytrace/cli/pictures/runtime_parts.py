"""Parts of the stage `runtime`: a thread pool's wait, event-loop lag, garbage collection."""

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from latencytrace.model import Stage
from latencytrace.model.texts.units import duration
from latencytrace.service.answers.documents import SegmentDocument

MOST_NAMED = 5


def runtime_parts(
    segments: Sequence[SegmentDocument], start_ns: int = 0, end_ns: int | None = None
) -> list[tuple[str, int]]:
    """The names of a request's `runtime` segments, and how long each held it up.

    Args:
        segments: Of its critical path.
        start_ns: From when they count.
        end_ns: Until when; None: to the end.

    Returns:
        The longest first.
    """
    found = Counter[str]()
    for segment in segments:
        until_ns = segment["end_ns"] if end_ns is None else min(segment["end_ns"], end_ns)
        length_ns = until_ns - max(segment["start_ns"], start_ns)
        if segment["stage"] == Stage.RUNTIME and length_ns > 0:
            found[segment["name"]] += length_ns
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def of_the_runtime(parts: Sequence[tuple[str, int]]) -> list[Text]:
    """A line that names them; nothing, where there are none."""
    if not parts:
        return []
    named = [f"{name} {duration(length)}" for name, length in parts[:MOST_NAMED]]
    if len(parts) > MOST_NAMED:
        named.append(f"others {duration(sum(length for _, length in parts[MOST_NAMED:]))}")
    return [Text(f"of the runtime: {', '.join(named)}", "dim")]
