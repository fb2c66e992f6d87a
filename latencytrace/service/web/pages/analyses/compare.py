"""Two cohorts side by side: the verdict first, then what shifted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter
from markupsafe import Markup
from pydantic import BaseModel, Field

from latencytrace.analysis.compare.verdict import AT_LEAST, Verdict
from latencytrace.errors import QuestionError
from latencytrace.model.cohorts.request_columns import DurationBand
from latencytrace.model.texts.units import share
from latencytrace.service.answers import compare as answers
from latencytrace.service.answers.compare_documents import (
    BaselineDocument,
    CompareDocument,
    DecileDocument,
    ShiftDocument,
    SideDocument,
)
from latencytrace.service.answers.sentences.compare import (
    about_new_spells,
    about_spell,
    at_equal,
    both,
    circumstances,
    is_sure,
    notes,
    relative,
    rows,
    sentence,
    shift_of,
    spells_by_side,
)
from latencytrace.service.store import Store
from latencytrace.service.web.drawing.intervals import Scale
from latencytrace.service.web.pages.cohort_bar import (
    MOST_NAMES,
    TIMES,
    Asked,
    read,
    rfc3339,
)
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.releases import releases
from latencytrace.service.web.pages.rendering import Address

SIDES: Final = ("a", "b")
HALVES: Final = ("since=2h&until=1h", "since=1h")
MOST_LOOKED_AT: Final = 5_000  # requests, for the versions there are
LEAST_REQUESTS: Final = 100  # of a version that is offered
PERCENT: Final = 100.0
BORDERS: Final = {Verdict.REGRESSION: "worse", Verdict.IMPROVEMENT: "better"}


class Least(BaseModel):
    """From which shift on a proven one counts."""

    least: Annotated[float, Field(ge=0, le=1000)] = AT_LEAST * PERCENT

    @property
    def ratio(self) -> float:
        """As the API takes it."""
        return round(self.least / PERCENT, 9)


def compare_pages(parts: Parts) -> APIRouter:
    """Answer at `/compare`."""
    of = parts.service

    def context(question: Asked) -> Mapping[str, object]:
        written = {side: question.parameters.get(side, "") for side in SIDES}
        a, b = (whole(question, written[side]) for side in SIDES)
        is_asked = any(written.values())
        least = question.parameters.get("least", f"{AT_LEAST * PERCENT:g}")

        @cache
        def comparison() -> CompareDocument:
            ratio = read(Least, question.parameters).ratio
            return answers.comparison(
                of.store, of.baselines, (a, b), ratio, question.now_ns, of.beside
            )

        saved = cache(lambda: answers.saved_baselines(of.baselines)["baselines"])

        def to(one: str, other: str) -> Address:
            return question.link("/compare", a=one or None, b=other or None, least=least)

        return {
            "check": partial(check, parts, question, [a, b] if is_asked else []),
            "files": [Export("shifts.csv", lambda: shift_rows(comparison()))] if is_asked else [],
            "written": written,
            "absolute": question.lasting("/compare", **dated(question, written)),
            "is_asked": is_asked,
            "least": least,
            "choices": lambda side: choices(of.store, question, saved(), written, side),
            "comparison": comparison,
            "sentence": sentence,
            "border": lambda document: BORDERS.get(document["verdict"], ""),
            "circumstances": lambda document: list(circumstances(document)),
            "sides": lambda document: list(described(document, (a, b))),
            "at_equal": at_equal,
            "shifts": lambda document: list(shifts(document)),
            "deciles": lambda document: list(deciles(document)),
            "notes": notes,
            "spells": lambda document: list(spells(document, (a, b))),
            "longer": longer(question, written),
            "swapped": to(written["b"], written["a"]),
            "offers": lambda: [
                (in_words(one), in_words(other), to(one, other))
                for one, other in offers(of.store, question, saved())
            ],
            "saved": saved,
            "against": lambda name: to(f"{answers.BASELINE}{name}", "since=1h"),
            "export": partial(export, question, a, b),
            "requests": lambda: of.store.count(question.cohort),
        }

    return parts.cohort_pages(
        "/compare", "compare.html", "Compare", context, (*SIDES, *Least.model_fields)
    )


def check(parts: Parts, question: Asked, sides: Sequence[str]) -> None:
    """Read what is compared.

    Raises:
        QuestionError: It cannot be read; the message says what to write.
        NotFoundError: No baseline has that name.
    """
    read(Least, question.parameters)
    for side in sides:
        if answers.named(side).startswith(answers.BASELINE):
            parts.service.baselines.refuse_unknown(side.removeprefix(answers.BASELINE))
        else:
            answers.cohort_written(side, question.now_ns)


def export(question: Asked, a: str, b: str) -> Address | None:
    """The same of the API; None: what was written cannot be asked."""
    try:
        a, b = answers.named(a), answers.named(b)
        ratio = read(Least, question.parameters).ratio
    except QuestionError:
        return None
    query = urlencode({"a": a, "b": b, "at_least": f"{ratio:g}"})
    return Address(f"/api/v1/compare?{query}")


def whole(question: Asked, side: str) -> str:
    """A side as the API takes it: with the filters of the page for what it does not say itself."""
    if not side or side.startswith(answers.BASELINE):
        return side
    try:
        own = parse_qsl(side, keep_blank_values=True, strict_parsing=True)
    except ValueError:
        return side  # the answer says what is wrong
    named = {name for name, _ in own}
    return urlencode([*((name, text) for name, text in question.given if name not in named), *own])


def dated(question: Asked, written: Mapping[str, str]) -> Mapping[str, str]:
    """The sides whose times mean the same tomorrow, of those that have times of their own."""
    found = {}
    for letter, side in written.items():
        own = parse_qsl(side)
        if {name for name, _ in own} & set(TIMES):
            try:
                cohort = answers.cohort_written(whole(question, side), question.now_ns)
            except QuestionError:
                continue  # the answer says what is wrong
            kept = [(name, text) for name, text in own if name not in TIMES]
            times = replace(question, cohort=cohort).absolute()
            found[letter] = urlencode([*kept, *times.items()])
    return found


def longer(question: Asked, written: Mapping[str, str]) -> tuple[str, Address] | None:
    """The same over a longer time; None: there is none, or a side has its own time."""
    since = question.longer()
    if since is None or any(
        "since=" in side or side.startswith(answers.BASELINE) for side in written.values()
    ):
        return None
    kept = {**question.parameters, "since": since, "until": None}
    return since, question.link("/compare", **kept)


def choices(
    store: Store,
    question: Asked,
    saved: Sequence[BaselineDocument],
    written: Mapping[str, str],
    side: str,
) -> tuple[str, list[tuple[str, str]]]:
    """The choices of a side, each with its words; and the one that is chosen.

    Args:
        store: What knows the versions that there are.
        question: The page's.
        saved: The baselines.
        written: What the address says of both sides.
        side: Which one.
    """
    cohort = question.cohort.model_copy(update={"version": None})
    began = store.versions(cohort, inner=True)
    latest = sorted(began, key=lambda one: -began[one])[:MOST_NAMES]
    several = len({service for service, _ in latest}) > 1
    versions = [
        urlencode({"version": version, **({"service": service} if several else {})})
        for service, version in latest
    ]
    baselines = [f"{answers.BASELINE}{one['name']}" for one in saved]
    proposed = versions[1::-1] if len(versions) > 1 and not several else HALVES
    chosen = written[side] or proposed[SIDES.index(side)]
    values = dict.fromkeys([*versions, *baselines, *HALVES, chosen])
    return chosen, [(value, in_words(value)) for value in values]


def in_words(side: str) -> str:
    """A side as people say it: `version 1.2, service rag`."""
    if side in HALVES:
        return ("the hour before", "the last hour")[HALVES.index(side)]
    if side.startswith(answers.BASELINE):
        return f"baseline {side.removeprefix(answers.BASELINE)}"
    return ", ".join(f"{name} {value}" for name, value in parse_qsl(side)) or side


def offers(
    store: Store, question: Asked, saved: list[BaselineDocument]
) -> Iterator[tuple[str, str]]:
    """Pairs that there are: two versions or models one after the other, a baseline and now."""
    requests = store.count(question.cohort)
    share = min(1.0, MOST_LOOKED_AT / max(requests, 1))
    columns = store.cohort_columns(question.cohort, [DurationBand(share_ratio=share)])
    for one in releases(store, question)[::-1]:
        if one.service not in columns.service.names:  # an inner one
            of = {"service": one.service}
            yield (
                urlencode({"version": one.before, **of}),
                urlencode({"version": one.version, **of}),
            )
    for key, words in (("version", columns.version), ("model", columns.model)):
        often: Counter[int] = Counter()
        began: dict[int, int] = {}
        for number, start_ns in zip(words.number.tolist(), columns.start_ns.tolist(), strict=True):
            often[number] += 1
            began[number] = min(start_ns, began.get(number, start_ns))
        names = [
            words.names[number]
            for number in sorted(began, key=lambda one: began[one])
            if number >= 0 and often[number] >= LEAST_REQUESTS * share
        ]
        for before, after in pairwise(names):
            yield urlencode({key: before}), urlencode({key: after})
    if saved:
        baseline = max(saved, key=lambda one: int(one["saved"]))
        yield f"{answers.BASELINE}{baseline['name']}", HALVES[1]
    yield HALVES


def described(
    document: CompareDocument, sides: tuple[str, str]
) -> Iterator[tuple[str, str, SideDocument, Address | None, Address | None]]:
    """Each side: letter, cohort in words, numbers, and where its requests and its tail are."""
    for letter, side, found in zip("AB", sides, both(document), strict=True):
        if side.startswith(answers.BASELINE):
            yield letter, side, found, None, None
            continue
        requests, tail = Address(f"/requests?{side}"), Address(f"/tail?{side}")
        yield letter, in_words(side) or "all of the last hour", found, requests, tail


def spells(
    document: CompareDocument, sides: tuple[str, str]
) -> Iterator[tuple[str, Address | None]]:
    """Each slow spell in words, and why its requests were slow; None: a baseline's."""
    for side, (name, found) in zip(sides, spells_by_side(document), strict=True):
        kept = [(key, text) for key, text in parse_qsl(side) if key not in TIMES]
        for spell in found:
            ends = (rfc3339(int(spell["start"])), rfc3339(int(spell["end"])))
            times = zip(TIMES, ends, strict=True)
            why = Address(f"/tail?{urlencode([*kept, *times])}")
            is_baseline = side.startswith(answers.BASELINE)
            yield about_spell(name, spell), None if is_baseline else why
    yield from ((words, None) for words in about_new_spells(document))


def shifts(
    document: CompareDocument,
) -> Iterator[tuple[str, str, ShiftDocument, float | None, str, str, Markup]]:
    """Rows: name, quantile, shift, change, colour, words, and a bar of shares of the request's.

    The scale is that of what could be tested.
    """
    end_to_end = document["duration_ns"]
    found = [(*row, shift_of(end_to_end, row[1])["a"] or 1) for row in rows(document)]
    ends = [_shares(shift, own) for _, _, shift, own in found]
    scale = Scale.of(end for pair in ends for end in pair if end is not None)
    for (name, level, shift, own), (low, high) in zip(found, ends, strict=True):
        ratio = shift["shift"] / own
        kind, words = _verdict(shift, ratio, document["at_least_ratio"])
        bar = scale.drawn(ratio, low, high, kind)
        yield name, level, shift, relative(shift), kind, words, bar


def shift_rows(document: CompareDocument) -> list[Mapping[str, object]]:
    """A row for each quantile, end to end and of each stage."""
    return [{"of": name, "quantile": level, **shift} for name, level, shift in rows(document)]


def deciles(document: CompareDocument) -> Iterator[tuple[str, DecileDocument, float, Markup]]:
    """Deciles: name, shift, change, and a bar."""
    found = document["deciles"]
    ends = [_shares(one, one["a"] or 1) for one in found]
    scale = Scale.of(end for pair in ends for end in pair if end is not None)
    for one, (low, high) in zip(found, ends, strict=True):
        is_apart = (low or 0) > 0 or (high or 0) < 0
        kind = ("slower" if one["shift"] > 0 else "faster") if is_apart else "unproven"
        ratio = one["shift"] / (one["a"] or 1)
        name = f"p{PERCENT * one['quantile']:.0f}"
        yield name, one, ratio, scale.drawn(ratio, low, high, kind)


def _shares(
    shift: ShiftDocument | DecileDocument, own_ns: int
) -> tuple[float | None, float | None]:
    """The ends of an interval as shares of a quantile; None: they are unknown."""
    low_ns, high_ns = shift["low"], shift["high"]
    if low_ns is None or high_ns is None:
        return None, None
    return low_ns / own_ns, high_ns / own_ns


def _verdict(shift: ShiftDocument, ratio: float, at_least_ratio: float) -> tuple[str, str]:
    """A shift's colour, and what is proven of it, in words."""
    if shift["p_value"] is None:
        return "unproven", "not tested"
    if not is_sure(shift):
        return "unproven", "no clear change"
    kind = "slower" if shift["shift"] > 0 else "faster"
    if abs(ratio) < at_least_ratio:
        return kind, f"{kind}, under {share(at_least_ratio)} of the request"
    return kind, f"{'▲' if kind == 'slower' else '▼'} {kind}"
