"""Reads objectives from files, and says by line all that is wrong in them."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import PlainValidator, model_validator

from latencytrace.analysis.slo.burn_rate import burn_rules, can_fire, holds_slice, scaled_rules
from latencytrace.errors import ObjectivesError
from latencytrace.model import BurnRule, Objective, Severity
from latencytrace.model.objective import length_text
from latencytrace.service.objectives.documents import openslo, openslo_alpha, pyrra, sloth
from latencytrace.service.objectives.documents.indicator import Found
from latencytrace.service.objectives.documents.openslo import Metadata
from latencytrace.service.objectives.documents.values import Items, Text, one_of
from latencytrace.service.objectives.documents.yaml_fields import (
    MAX_CHARACTERS,
    Faults,
    Field,
    Part,
    documents,
)
from latencytrace.service.objectives.maintenance import LONGEST_NS, Maintenance

VERSION: Final = "latencytrace/v1"


def _moment_ns(field: Field) -> int:
    try:
        moment = datetime.fromisoformat(field.text())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"is {field.text()!r}: write a time with its zone, 2026-01-31T22:00:00Z")
    return round(moment.timestamp()) * 10**9


class _Window(Part):
    start: Annotated[int, PlainValidator(_moment_ns)]
    end: Annotated[int, PlainValidator(_moment_ns)]
    objectives: Annotated[list[Text], Items] | None = None
    services: Annotated[list[Text], Items] | None = None

    @model_validator(mode="after")
    def _is_a_while(self) -> Self:
        if not 0 < self.end - self.start <= LONGEST_NS:
            raise ValueError("must end after its start, and within 31 days")
        return self


class _Document(Part):
    api_version: Annotated[str, one_of(VERSION)]
    kind: Annotated[str, one_of("Maintenance")]
    metadata: Metadata
    spec: _Window


def is_maintenance(document: Field) -> bool:
    return (document.child("apiVersion") or "").startswith("latencytrace/")


def maintenance_of(document: Field) -> tuple[Maintenance, Field] | None:
    """Read a window, and where it stands; None: something in it is wrong, which is noted."""
    found = _Document.read(document)
    if found is None:
        return None
    window = Maintenance(
        name=found.metadata.name,
        start_ns=found.spec.start,
        end_ns=found.spec.end,
        objectives=frozenset(found.spec.objectives or ()),
        services=frozenset(found.spec.services or ()),
    )
    return window, found.spec.at


MAX_OBJECTIVES = 100
MAX_FILES = 100  # of a folder
_ENDINGS: Final = {".yaml", ".yml"}

Texts = Sequence[tuple[str, str]]  # of files, with their names


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivesFile:
    """The objectives of a file or folder, and notes on how it was understood."""

    objectives: tuple[Objective, ...]
    notes: tuple[str, ...]
    maintenance: tuple[Maintenance, ...] = ()


def read_objectives(path: Path) -> ObjectivesFile:
    """Read a file, or all YAML files of a folder.

    Raises:
        ObjectivesError: It cannot be read, or something in it is wrong.
    """
    if path.is_dir():
        texts = [(_text(one), str(one)) for one in yaml_files(path)]
        if not texts:
            raise ObjectivesError(f"{path} has no YAML file: it has no objective")
        return _parsed(texts, str(path), lambda: ())
    return _parsed([(_text(path), str(path))], str(path), lambda: _beside(path))


def yaml_files(folder: Path) -> list[Path]:
    found = (one for one in folder.iterdir() if one.suffix in _ENDINGS and one.is_file())
    return sorted(found)[:MAX_FILES]


def parse_objectives(text: str, file: str) -> ObjectivesFile:
    """Read the text of a file; every fault of every document is named.

    Raises:
        ObjectivesError: Something is wrong; the message has a line for each fault.
    """
    return _parsed([(text, file)], file, lambda: ())


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise ObjectivesError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ObjectivesError(f"{path} is no text in UTF-8") from None


def _beside(path: Path) -> Texts:
    """The other YAML files of its folder, for documents that it refers to."""
    found: list[tuple[str, str]] = []
    for one in yaml_files(path.parent):
        try:
            if one.name != path.name and one.stat().st_size <= MAX_CHARACTERS:
                found.append((_text(one), str(one)))
        except (ObjectivesError, OSError):
            continue  # it is not the one that was named
    return found


def _parsed(texts: Texts, name: str, beside: Callable[[], Texts]) -> ObjectivesFile:
    faults = Faults()
    fields = [one for text, file in texts for one in documents(text, file, faults)]
    read = _Read(_References(fields, beside))
    for one in fields:
        read.add(one)
    read.check_maintenance()
    if faults:
        raise ObjectivesError(faults.text())
    if not read.objectives:
        raise ObjectivesError(f"{name} has no document of `kind: SLO`: it has no objective")
    if len(read.objectives) > MAX_OBJECTIVES:
        raise ObjectivesError(
            f"{name} has {len(read.objectives)} objectives, more than {MAX_OBJECTIVES}: set "
            "the ones that a user would notice, a route at a time"
        )
    return ObjectivesFile(
        objectives=tuple(read.objectives),
        notes=tuple(read.notes),
        maintenance=tuple(one for one, _ in read.maintenance),
    )


class _References(dict[tuple[str, str], Field]):
    """Documents by kind and name; where one is missing, those of the files beside, too."""

    def __init__(self, fields: Iterable[Field], beside: Callable[[], Texts]) -> None:
        super().__init__(_named(fields))
        self._beside = beside

    def get(self, key: tuple[str, str], default: Field | None = None) -> Field | None:  # type: ignore[override] # no other default is asked
        """Look for a document."""
        if key not in self:
            texts, self._beside = self._beside(), tuple
            for text, file in texts:
                others = _named(documents(text, file, Faults()))
                self.update({one: found for one, found in others if one not in self})
        return super().get(key, default)


def _named(fields: Iterable[Field]) -> Iterator[tuple[tuple[str, str], Field]]:
    for one in fields:
        kind, name = one.child("kind"), one.child("metadata", "name")
        if kind in openslo.REFERRED and name is not None:
            yield (kind, name), one


@dataclass(slots=True)
class _Read:
    """The objectives and notes read by now."""

    references: _References
    objectives: list[Objective] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    maintenance: list[tuple[Maintenance, Field]] = field(default_factory=list)

    def check_maintenance(self) -> None:
        """Note windows of objectives that there are not."""
        names = {objective.name for objective in self.objectives}
        for window, at in self.maintenance:
            for name in sorted(window.objectives - names):
                at.wrong(f"names no objective {name!r}: there are {', '.join(sorted(names))}")

    def add(self, field: Field) -> None:
        """Read a document; its faults are noted."""
        for found in self._found(field):
            objective = found.objective
            if any(other.name == objective.name for other in self.objectives):
                again = f"is {objective.name!r} a second time: every name is there once"
                found.name_at.wrong(again)
            self.notes += _refused_tiers(objective, found.at)
            self.objectives.append(objective)

    def _found(self, field: Field) -> Iterator[Found]:
        if is_maintenance(field):
            window = maintenance_of(field)
            self.maintenance += [] if window is None else [window]
            return
        for is_theirs, objectives_of in (
            (sloth.is_sloth, sloth.objectives_of),
            (pyrra.is_pyrra, pyrra.objectives_of),
            (openslo_alpha.is_alpha, openslo_alpha.objectives_of),
        ):
            if is_theirs(field):
                yield from objectives_of(field, self.notes)
                return
        if field.names().isdisjoint({"apiVersion", "kind"}):
            field.wrong("is no objective: begin it with `apiVersion: openslo/v1` and `kind: SLO`")
            return
        document = openslo.Document.read(field)
        if document is None:
            return
        if document.kind == "SLO":
            yield from openslo.objectives_of(document, self.references, self.notes)
        elif document.kind == "Service":
            self.notes.append(f"{field.at}: a {document.kind} is not read")


def _refused_tiers(objective: Objective, at: Field) -> Sequence[str]:
    """A note for each tier that can never fire; that no page could is noted as a fault."""
    budget = objective.budget_ratio
    all_rules = objective.tiers or scaled_rules(objective.period_ns)
    rules = [rule for rule in all_rules if holds_slice(objective, rule)]
    pages = [rule.factor for rule in rules if rule.severity is Severity.PAGE]
    firing = burn_rules(objective)
    if len(rules) < len(all_rules) and not pages:
        at.wrong(_too_long_slices(all_rules))
        return ()
    if not firing or (pages and not any(rule.severity is Severity.PAGE for rule in firing)):
        slowest = min(pages or [rule.factor for rule in rules])
        least = math.ceil(10_000 * (1 - 1 / slowest)) / 10_000
        at.wrong(
            f"has the target {objective.target_ratio:.4g}: no page could ever fire. Were all "
            f"requests bad, the budget of {budget:.4g} would burn {1 / budget:.3g} times too "
            f"fast, and a page takes {slowest:g} times ({slowest:g} * {budget:.4g} = "
            f"{slowest * budget:.3g} of all requests). Set a target of at least {least:g}, with a "
            "longer value if need be"
        )
        return ()
    return [
        f"{at.at}: {objective.name!r}: the tier {rule.factor:g} times over "
        f"{length_text(rule.long_ns)} ({rule.severity}) {_why_not(objective, rule)}: left out"
        for rule in all_rules
        if not can_fire(objective, rule)
    ]


def _too_long_slices(rules: Sequence[BurnRule]) -> str:
    """Say how long time slices may be, for one must fit in the short window of a page."""
    pages = [rule for rule in rules if rule.severity is Severity.PAGE] or rules
    longest = length_text(max(rule.short_ns for rule in pages))
    return f"has time slices too long for any alert: set a timeSliceWindow of at most {longest}"


def _why_not(objective: Objective, rule: BurnRule) -> str:
    """Say why a tier is left out."""
    if not holds_slice(objective, rule):
        return f"looks at {length_text(rule.short_ns)}, less than a time slice"
    budget = objective.budget_ratio
    return (
        f"can never fire: {rule.factor:g} * {budget:.4g} of budget = "
        f"{rule.factor * budget:.3g}, and no more than 1 can be bad"
    )
