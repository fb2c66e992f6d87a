"""Sentences of a comparison: the verdict, what it was matched on, and notes."""

from collections.abc import Iterator, Sequence
from typing import Final

from latencytrace.analysis.compare.verdict import Verdict
from latencytrace.model.texts.units import count, duration, figure, moment, share
from latencytrace.service.answers.compare_documents import (
    CompareDocument,
    ComparedStageDocument,
    ShiftDocument,
    SideDocument,
    SpellDocument,
)
from latencytrace.service.answers.sentences.weights import recorded_note

SIDES: Final = ("before", "after")
LEVELS: Final = ("p50", "p95", "p99")
PROVEN: Final = (Verdict.REGRESSION, Verdict.IMPROVEMENT)
SURE: Final = 0.05
HALF: Final = 0.5
END_TO_END: Final = "end to end"
CIRCUMSTANCES: Final = {
    "input_tokens": "input tokens",
    "cached_input_ratio": "input cached",
    "output_tokens": "output tokens",
    "batch_size": "batch size",
    "queue_depth": "queue depth",
    "concurrency": "concurrency",
    "preemptions": "preemptions",
    "cold_start_ratio": "cold starts",
    "engine_waiting_requests": "waiting for the engine",
    "engine_running_requests": "running in the engine",
    "engine_batch_size": "engine's batch size",
    "engine_preemptions": "engine's preemptions",
    "engine_kv_cache_use_ratio": "KV cache in use",
    "engine_prefix_cache_hit_ratio": "prefix cache hits",
    "engine_speculative_acceptance_ratio": "drafts accepted",
}


def sentence(document: CompareDocument) -> str:
    """Return the verdict, and what it leaves out: first, where that is most of a side."""
    verdict, left_out = _verdict(document), list(_left_out(document))
    if any(_share_slow(found) > HALF for _, found in spells_by_side(document)):
        return f"{' '.join(left_out)} Of the rest: {verdict[0].lower()}{verdict[1:]}"
    return " ".join([verdict, *left_out])


def _verdict(document: CompareDocument) -> str:
    verdict = document["verdict"]
    if verdict in PROVEN:
        return _proven(document, verdict)
    if verdict == Verdict.NO_CHANGE:
        least = share(document["at_least_ratio"])
        return f"No change: no shift of {least} or more is proven, and the median is sure."
    return f"Not enough data{_lacks(document)}."


def _lacks(document: CompareDocument) -> str:
    """Return what both sides have too little of, after a colon; empty: that is not known."""
    if document["unmatched"] is not None:
        what = document["unmatched"].replace("_", " ")
        return f": both sides have too few requests of the same {what}"
    sides = zip(SIDES, both(document), strict=True)
    empty = [name for name, side in sides if not side["requests"]]
    if empty:
        return f": no request {' or '.join(empty)}"
    needed, alike = document["needed_requests"], _alike(document)
    if not needed:
        return ""
    takes = f"it takes about {needed:,} requests of each side"
    wait_ns = document.get("wait_ns")  # an older service does not say
    if wait_ns:
        takes += f", those after in about {_about(wait_ns)} more at their pace"
    if alike > 1:
        takes = f"neighbouring requests are alike (up to {alike:,} count as one), so {takes}"
    return f": {takes}"


def _left_out(document: CompareDocument) -> Iterator[str]:
    for name, found in spells_by_side(document):
        if found:
            requests = share(_share_slow(found))
            stages = " and ".join(dict.fromkeys(one["stage"] for one in found))
            spells = "a slow spell" if len(found) == 1 else f"{len(found)} slow spells"
            yield f"Left out: {spells} {name} ({requests} of its requests, in {stages})."


def _share_slow(spells: Sequence[SpellDocument]) -> float:
    return sum(one["share_ratio"] for one in spells)


def spells_by_side(document: CompareDocument) -> Iterator[tuple[str, Sequence[SpellDocument]]]:
    """Yield each side's name and its slow spells; an older service tells of none."""
    yield from zip(SIDES, document.get("spells", ([], [])), strict=True)


def has_new_spells(document: CompareDocument) -> bool:
    """Tell whether the side after had slow spells, and the one before had none."""
    (_, before), (_, after) = spells_by_side(document)
    return bool(after) and not before


def about_spell(name: str, spell: SpellDocument) -> str:
    """Return when a spell was, how much it slowed down and in which stage."""
    length_ns = int(spell["end"]) - int(spell["start"])
    return (
        f"Slow spell {name}: from {moment(spell['start'])}, for {duration(length_ns)}; "
        f"{count(spell['requests'], 'request')}, on average {duration(spell['mean_ns'])} instead "
        f"of {duration(spell['usual_ns'])}, mostly in {spell['stage']}."
    )


def about_new_spells(document: CompareDocument) -> Iterator[str]:
    """Yield what a slow spell says of a change, where only the side after had one."""
    if has_new_spells(document):
        yield (
            "What changed may have brought it, or it may be chance: so few slow spells cannot "
            "tell. Look at why it was slow."
        )


def _about(length_ns: int) -> str:
    """A length of time in one unit: the pace is only estimated."""
    for unit, size_ns in (("day", 86_400e9), ("h", 3600e9), ("min", 60e9)):
        if length_ns >= 1.5 * size_ns:
            number = round(length_ns / size_ns)
            return count(number, unit) if unit == "day" else f"{number} {unit}"
    return "a minute"


def notes(document: CompareDocument) -> Iterator[str]:
    """Yield what else there is to know."""
    for name, side in zip(SIDES, both(document), strict=True):
        yield from recorded_note(side, name)
    failed = [side["failed_ratio"] for side in both(document)]
    if any(failed):
        shares = " and ".join(share(ratio) for ratio in failed if ratio is not None)
        yield f"Left out: {shares} of the requests, which failed or were rejected."
    whole = document["duration_ns"]
    if whole is not None:
        untested = [level for level in LEVELS if shift_of(whole, level)["p_value"] is None]
        if untested:
            yield f"Too few requests to test {' and '.join(untested)}."
        unsteady = [row["stage"] for row in document["stages"] if _is_untested(row)]
        if unsteady and len(untested) < len(LEVELS):
            yield f"Not tested, as it comes and goes too slowly: {' and '.join(unsteady)}."
    alike = _alike(document)
    if alike > 1 and not document["needed_requests"]:
        yield f"Neighbouring requests are alike; up to {alike:,} count as one."


def _is_untested(row: ComparedStageDocument) -> bool:
    return all(shift_of(row, level)["p_value"] is None for level in LEVELS)


def _alike(document: CompareDocument) -> int:
    """How many neighbouring requests count as one, on the side where they are most."""
    return max(document.get("alike_requests", (1,)))  # an older service does not say


def at_equal(document: CompareDocument) -> str:
    """The traits in which the two sides have been made equal."""
    names = [name.replace("_", " ") for name in document["matched_on"]]
    if not names:
        return "Raw: nothing is known to adjust for"
    listed = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"Adjusted for {listed}"


def both(document: CompareDocument) -> tuple[SideDocument, SideDocument]:
    """A and B."""
    return document["a"], document["b"]


def circumstances(document: CompareDocument) -> Iterator[tuple[str, str, str]]:
    """Rows of what the requests of A and of B brought and met, as far as either tells it."""
    a, b = (side.get("circumstances", {}) for side in both(document))  # an older service: none
    for key, name in CIRCUMSTANCES.items():
        values: list[float | None] = [a.get(key), b.get(key)]  # type: ignore[list-item] # numbers
        if any(value is not None for value in values):
            first, second = (_number(key, value) for value in values)
            yield name, first, second


def _number(key: str, value: float | None) -> str:
    if value is None or key.endswith("_ratio"):
        return share(value)
    return figure(value)


def rows(document: CompareDocument) -> Iterator[tuple[str, str, ShiftDocument]]:
    """Each row of the table: end to end, then the stages that either side has."""
    whole = document["duration_ns"]
    if whole is None:
        return
    for level in LEVELS:
        yield END_TO_END, level, shift_of(whole, level)
    for row in document["stages"]:
        shifts = {level: shift_of(row, level) for level in LEVELS}
        if any(shift["a"] or shift["b"] for shift in shifts.values()):
            for level, shift in shifts.items():
                yield row["stage"], level, shift


def shift_of(shifts: object, level: str) -> ShiftDocument:
    found: ShiftDocument = shifts[level]  # type: ignore[index] # a document with these keys
    return found


def relative(shift: ShiftDocument) -> float | None:
    """A shift as a share of what was; None: there was nothing."""
    return shift["shift"] / shift["a"] if shift["a"] else None


def is_sure(shift: ShiftDocument) -> bool:
    """Tell whether a shift is more than chance explains."""
    return shift["p_value"] is not None and shift["p_value"] <= SURE


def _proven(document: CompareDocument, verdict: Verdict) -> str:
    """Which shift is the verdict's: end to end, else of a stage; and which stage it is of."""
    slower = verdict == Verdict.REGRESSION
    word = "Regression" if slower else "Improvement"
    named = [_with_part(row) for row in document["stages"] if row["verdict"] == verdict]
    where = f", in {' and '.join(named[:2])}" if named else ""
    whole = document["duration_ns"]
    shifts = {level: shift_of(whole, level) for level in LEVELS if whole is not None}
    by = {
        level: share(abs(part))
        for level, one in shifts.items()
        if is_sure(one)
        and (one["shift"] > 0) is slower
        and (part := relative(one)) is not None
        and abs(part) >= document["at_least_ratio"]
    }
    if not by:
        return f"{word}{where}."
    (first, much), *others = by.items()
    said = [f"{first} is {much} {'slower' if slower else 'faster'}"]
    said += [f"{level} {other}" for level, other in others if other != much]
    return f"{word}: {', '.join(said)}{where}."


def _with_part(row: ComparedStageDocument) -> str:
    part = row.get("part")  # an older service has none
    return f"{row['stage']} (mostly {part})" if part else row["stage"]
