"""Time on the critical path of a request that no span explains: in which span, between which."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from latencytrace.model import Stage
from latencytrace.model.texts.units import duration
from latencytrace.service.answers.documents import SegmentDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch that no span explains."""

    length_ns: int
    inside: str | None  # the span that spent it; None: the request itself did
    between: tuple[str, str] | None  # the spans before and after it; None: one of them is missing

    @property
    def text(self) -> str:
        """Its length, and where it lies."""
        places = [f"in {self.inside}"] if self.inside else []
        places += [f"between {' and '.join(self.between)}"] if self.between else []
        return f"{duration(self.length_ns)} {', '.join(places)}"


def gaps(segments: Sequence[SegmentDocument], request_span_id: str, most: int) -> list[Gap]:
    """The longest of them; those of one place are one.

    Args:
        request_span_id: Of the request itself, whose own time is named where nothing else is.
    """
    lengths_ns: Counter[tuple[str | None, tuple[str, str] | None]] = Counter()
    for gap in _gaps(segments, request_span_id):
        lengths_ns[gap.inside, gap.between] += gap.length_ns
    return [
        Gap(length_ns=length_ns, inside=inside, between=between)
        for (inside, between), length_ns in lengths_ns.most_common(most)
    ]


def _gaps(segments: Sequence[SegmentDocument], request_span_id: str) -> Iterator[Gap]:
    for place, segment in enumerate(segments):
        if segment["stage"] != Stage.UNATTRIBUTED:
            continue
        between = None
        if 0 < place < len(segments) - 1:
            between = segments[place - 1]["name"], segments[place + 1]["name"]
        of_request = between is not None and segment["span_id"] == request_span_id
        yield Gap(
            length_ns=segment["end_ns"] - segment["start_ns"],
            inside=None if of_request else segment["name"],
            between=between,
        )
