"""A GPU over time: a lane for each counter, and one for the device time of traced work."""

from collections.abc import Sequence

from markupsafe import Markup, escape

from latencytrace.model.texts.units import share
from latencytrace.service.answers.gpu_documents import GpuColumnDocument, GpuTimelineDocument
from latencytrace.service.web.drawing.axes import moments
from latencytrace.service.web.drawing.bars import number

WIDTH, LEFT, LANE, GAP, BOTTOM = 900, 150, 34, 10, 22
LANES = {
    "sm_ratio": "SM active",
    "bandwidth_ratio": "memory bandwidth",
    "tensor_ratio": "tensor cores",
    "engine_ratio": "engine active",
}
WORK = "traced work"


def gpu_lanes(document: GpuTimelineDocument) -> Markup:
    """A picture of what is known; a lane of which nothing was read is left out."""
    columns = document["columns"]
    values: dict[str, Sequence[float | None]] = {
        text: [_ratio(column, name) for column in columns] for name, text in LANES.items()
    }
    values[WORK] = [min(column["device_ns"] / document["column_ns"], 1) for column in columns]
    shown = {text: lane for text, lane in values.items() if any(one is not None for one in lane)}
    height = len(shown) * (LANE + GAP) + BOTTOM
    lanes = "".join(
        _lane(text, lane, place * (LANE + GAP)) for place, (text, lane) in enumerate(shown.items())
    )
    held = _throttled(columns, height - BOTTOM)
    return Markup(  # noqa: S704 - numbers and our own texts
        f'<svg class="chart lanes" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape("; ".join(map(_highest, shown, shown.values())))}">'
        f"{held}{lanes}{_times(document, height)}</svg>"
    )


def _ratio(column: GpuColumnDocument, name: str) -> float | None:
    value: float | None = column[name]  # type: ignore[literal-required] # one of `LANES`
    return value


def _lane(text: str, values: Sequence[float | None], top: int) -> str:
    width = (WIDTH - LEFT) / len(values)
    boxes = "".join(
        f"M{number(LEFT + place * width)} {top + LANE}V{number(top + LANE * (1 - value))}"
        f"H{number(LEFT + (place + 1) * width)}V{top + LANE}z"
        for place, value in enumerate(values)
        if value
    )
    kind = "work" if text == WORK else "counter"
    read = [value for value in values if value is not None]
    return (
        f'<text class="axis" x="{LEFT - 8}" y="{top + LANE // 2 - 3}" text-anchor="end">'
        f"{text}</text>"
        f'<text class="axis" x="{LEFT - 8}" y="{top + LANE // 2 + 11}" text-anchor="end">'
        f"mean {share(sum(read) / len(read))}</text>"
        f'<path class="grid" d="M{LEFT} {top}H{WIDTH}M{LEFT} {top + LANE}H{WIDTH}"/>'
        f'<path class="{kind}" d="{boxes}"/>'
    )


def _throttled(columns: Sequence[GpuColumnDocument], height: int) -> str:
    width = (WIDTH - LEFT) / len(columns)
    boxes = "".join(
        f"M{number(LEFT + place * width)} 0H{number(LEFT + (place + 1) * width)}V{height}"
        f"H{number(LEFT + place * width)}z"
        for place, column in enumerate(columns)
        if column["throttled"]
    )
    return f'<path class="throttled" d="{boxes}"/>' if boxes else ""


def _times(document: GpuTimelineDocument, height: int) -> str:
    since_ns, whole_ns = int(document["since"]), len(document["columns"]) * document["column_ns"]

    def x(at_ns: int) -> float:
        return LEFT + (WIDTH - LEFT) * (at_ns - since_ns) / whole_ns

    return moments(since_ns, since_ns + whole_ns, x, height - 6)


def _highest(text: str, values: Sequence[float | None]) -> str:
    return f"{text} at most {share(max(value for value in values if value is not None))}"
