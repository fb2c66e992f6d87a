"""Bars of stages and lines of durations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup, escape

from latencytrace.model import Stage
from latencytrace.model.texts.escaped import escaped
from latencytrace.model.texts.units import duration, share

WIDTH, HEIGHT = 1000, 20  # of a bar, which is stretched to its place
MOST_SEGMENTS = 400  # that a bar shows one by one
SPARK_WIDTH, SPARK_HEIGHT = 150, 30
LABELLED: Final = 0.08  # of a bar, from which on a segment has room for its name
_NARROW: Final = {"short": 98, "long": 200, "longer": 300}  # pixels of bars without room
_MARGIN, _LETTER = 6, 7  # pixels
_ORDER: Final = {str(stage): place for place, stage in enumerate(Stage)}


def number(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


def in_order(stages: Mapping[Stage, int]) -> list[tuple[Stage, int]]:
    """Stages in the order in which a request passes them, in every picture the same."""
    return sorted(stages.items(), key=lambda item: _ORDER[item[0]])


def stacked_bar(stages: Mapping[Stage, int], longest_ns: int | None = None) -> Markup:
    """All stages in one bar, the large ones by name.

    Args:
        stages: Each with its time.
        longest_ns: What the whole width stands for; None: the sum of the stages.
    """
    whole = sum(stages.values())
    scale = 100 / (longest_ns or whole or 1)
    parts, at = [], 0.0
    for stage, length_ns in in_order(stages):
        if length_ns:
            text = f"{stage} {duration(length_ns)}, {share(length_ns / whole)}"
            name = stage if len(stages) > 1 else ""  # else it stands beside it
            parts.append(_labelled(stage, at, length_ns * scale, text, name))
            at += length_ns * scale
    label = "; ".join(_largest(stages)) or "no time"
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="bar" role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def _labelled(stage: str, at: float, width: float, text: str, name: str) -> str:
    """A segment in percent of the bar: its name is not stretched, but cut off at its end."""
    label = ""
    if name and width >= 100 * LABELLED:
        room = 100 * (_MARGIN + _LETTER * len(name))
        kinds = [kind for kind, pixels in _NARROW.items() if width * pixels < room]
        kind = f' class="{" ".join(kinds)}"' if kinds else ""
        label = f'<text{kind} x="4" y="50%" dy="0.35em">{name}</text>'
    return (
        f'<svg class="s-{stage}" x="{number(at)}%" width="{number(max(width, 0.1))}%" '
        f'height="100%"><rect width="100%" height="100%">'
        f"<title>{escape(escaped(text))}</title></rect>{label}</svg>"
    )


def segment_bar(segments: Sequence[tuple[Stage, int, int, str]], whole_ns: int) -> Markup:
    """The critical path over time: stage, start, end and name of each segment.

    Of very many segments each stretch of the bar shows the stage that takes most of it.
    """
    scale = WIDTH / (whole_ns or 1)
    many = len(segments) > MOST_SEGMENTS
    parts = [
        _part(
            stage,
            start_ns * scale,
            (end_ns - start_ns) * scale,
            f"{stage} {duration(end_ns - start_ns)}{name and ': '}{name}",
        )
        for stage, start_ns, end_ns, name in (_stretches(segments, whole_ns) if many else segments)
        if end_ns > start_ns
    ]
    return _bar(parts, "The critical path over time", "bar many" if many else "bar")


def trend(columns: Sequence[tuple[int, float]], count: int, releases: str = "") -> Markup:
    """Values over time as columns; where nothing is known, there is a gap.

    Args:
        columns: Place from 0, and value.
        count: How many columns the time has.
        releases: Lines where versions began, as elements of SVG.
    """
    highest = max((value for _, value in columns), default=0.0) or 1.0
    width = SPARK_WIDTH / max(count, 1)
    path = "".join(
        f"M{number(column * width)} {SPARK_HEIGHT}v-{number(max(value / highest, 0.04) * 26)}"
        f"h{number(width * 0.8)}V{SPARK_HEIGHT}z"
        for column, value in columns
    )
    said = ";".join(f"{column}:{duration(value)}" for column, value in columns)
    label = f"p99 over time, at most {duration(highest)}"
    role = "group" if releases else "img"
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="spark" viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" '
        f'preserveAspectRatio="none" role="{role}" aria-label="{label}" '
        f'data-columns="{count}" data-values="{said}"><path d="{path}"/>{releases}</svg>'
    )


def pair_bar(upper_ratio: float, lower_ratio: float, kind: str = "pair") -> Markup:
    """Two shares below each other; the numbers stand beside them."""
    return Markup(  # noqa: S704 - numbers
        f'<svg class="{kind}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true"><rect width="{number(upper_ratio * WIDTH)}" height="9"/>'
        f'<rect class="lower" y="11" width="{number(lower_ratio * WIDTH)}" height="9"/></svg>'
    )


def share_bar(ratio: float) -> Markup:
    """A share of what there is; the number stands beside it."""
    return Markup(  # noqa: S704 - numbers
        f'<svg class="meter" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true"><rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<rect class="used" width="{number(min(ratio, 1) * WIDTH)}" height="{HEIGHT}"/></svg>'
    )


def _stretches(
    segments: Sequence[tuple[Stage, int, int, str]], whole_ns: int
) -> list[tuple[Stage, int, int, str]]:
    """Equal stretches of time with the stage that takes most of each; equal neighbours are one."""
    times: list[Counter[Stage]] = [Counter() for _ in range(MOST_SEGMENTS)]
    width_ns = -(-whole_ns // MOST_SEGMENTS)
    for stage, start_ns, end_ns, _ in segments:
        at_ns = start_ns
        while at_ns < end_ns:
            place = at_ns // width_ns
            until_ns = min(end_ns, (place + 1) * width_ns)
            times[place][stage] += until_ns - at_ns
            at_ns = until_ns
    found: list[tuple[Stage, int, int, str]] = []
    for place, counts in enumerate(times):
        if not counts:
            continue
        stage = counts.most_common(1)[0][0]
        end_ns = min((place + 1) * width_ns, whole_ns)
        if found and found[-1][0] == stage:
            found[-1] = (stage, found[-1][1], end_ns, "")
        else:
            found.append((stage, place * width_ns, end_ns, ""))
    return found


def _largest(stages: Mapping[Stage, int]) -> list[str]:
    whole = sum(stages.values()) or 1
    ranked = sorted(stages.items(), key=lambda item: -item[1])[:3]
    return [f"{stage} {share(length_ns / whole)}" for stage, length_ns in ranked if length_ns]


def _part(stage: str, at: float, width: float, text: str) -> str:
    return (
        f'<rect class="s-{stage}" x="{number(at)}" width="{number(max(width, 0.5))}" '
        f'height="{HEIGHT}"><title>{escape(escaped(text))}</title></rect>'
    )


def _bar(parts: Sequence[str], label: str, kind: str = "bar") -> Markup:
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="{kind}" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" '
        f'role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
