"""Time on the critical path of a request that no span explains, and between which two it lies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from latencytrace.model import Stage
from latencytrace.model.texts.units import duration
from latencytrace.service.answers.documents import SegmentDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A stretch that no span explains."""

    length_ns: int
    inside: str
    after: str | None
    before: str | None

    @property
    def text(self) -> str:
        """Its length, and where it lies."""
        if self.after and self.before:
            return f"{duration(self.length_ns)} between {self.after} and {self.before}"
        return f"{duration(self.length_ns)} in {self.inside}"


def gaps(segments: Sequence[SegmentDocument], most: int) -> list[Gap]:
    """The longest of them."""
    return sorted(_gaps(segments), key=lambda gap: -gap.length_ns)[:most]


def _gaps(segments: Sequence[SegmentDocument]) -> Iterator[Gap]:
    for place, segment in enumerate(segments):
        if segment["stage"] != Stage.UNATTRIBUTED:
            continue
        others = [
            segments[at]["name"] if 0 <= at < len(segments) else None
            for at in (place - 1, place + 1)
        ]
        yield Gap(
            length_ns=segment["end_ns"] - segment["start_ns"],
            inside=segment["name"],
            after=others[0],
            before=others[1],
        )
