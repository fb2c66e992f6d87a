"""Reads objectives from an OpenSLO v1 file, and says by line all that is wrong in it.

Source: the OpenSLO specification, version 1 (github.com/OpenSLO/OpenSLO).
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from latencytrace.analysis.slo.burn_rate import burn_rules, can_fire, scaled_rules
from latencytrace.errors import ObjectivesError
from latencytrace.model import Objective, Severity
from latencytrace.model.objective import length_text
from latencytrace.service.objectives.fields import SPEC, promises
from latencytrace.service.objectives.yaml_documents import documents
from latencytrace.service.objectives.yaml_fields import Faults, Field, Fields

MAX_OBJECTIVES = 100

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_OTHER_KINDS = (
    "AlertCondition", "AlertNotificationTarget", "AlertPolicy", "DataSource", "SLI", "Service",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivesFile:
    """What a file promises, and what a reader should know of how it was understood."""

    objectives: tuple[Objective, ...]
    notes: tuple[str, ...]


def read_objectives(path: Path) -> ObjectivesFile:
    """Read a file.

    Raises:
        ObjectivesError: It cannot be read, or something in it is wrong.
    """
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise ObjectivesError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ObjectivesError(f"{path} is no text in UTF-8") from None
    return parse_objectives(text, str(path))


def parse_objectives(text: str, file: str) -> ObjectivesFile:
    """Read the text of a file; every fault of every document is named.

    Raises:
        ObjectivesError: Something is wrong; the message has a line for each fault.
    """
    faults = Faults()
    read = _Read()
    for document in documents(text, file, faults):
        document.read(read.add)
    if faults:
        raise ObjectivesError(faults.text())
    if not read.objectives:
        raise ObjectivesError(f"{file} has no document of `kind: SLO`: it promises nothing")
    if len(read.objectives) > MAX_OBJECTIVES:
        raise ObjectivesError(
            f"{file} has {len(read.objectives)} objectives, more than {MAX_OBJECTIVES}: promise "
            "what a user would notice, a route at a time"
        )
    return ObjectivesFile(objectives=tuple(read.objectives), notes=tuple(read.notes))


@dataclass(slots=True)
class _Read:
    """What has been read by now."""

    objectives: list[Objective] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, document: Field) -> None:
        """Read a document; its faults are noted.

        Raises:
            ObjectivesError: It is none at all.
        """
        if document.names().isdisjoint({"apiVersion", "kind"}):
            raise document.wrong(
                "is no objective: begin it with `apiVersion: openslo/v1` and `kind: SLO`"
            )
        fields = document.fields(("apiVersion", "kind", "metadata", "spec"))
        fields.read("apiVersion", lambda version: version.one_of(("openslo/v1",)))
        kind = fields.read("kind", lambda kind: kind.one_of(("SLO", *_OTHER_KINDS)))
        if kind == "SLO":
            self._add_objectives(fields)
        elif kind is not None:
            self.notes.append(f"{document.at}: a {kind} is not read")

    def _add_objectives(self, fields: Fields) -> None:
        metadata = fields.read(
            "metadata",
            lambda found: found.fields(
                ("name", "displayName", "labels", "annotations"), others=True
            ),
        )
        name = None if metadata is None else metadata.read("name", _name)
        title = None if metadata is None else metadata.text_or_none("displayName")
        spec = fields.read("spec", lambda found: found.fields(SPEC))
        if spec is None:
            return
        if "alertPolicies" in spec.found:
            policies = spec.found["alertPolicies"]
            self.notes.append(f"{policies.at}: alertPolicies are not read, the tiers are fixed")
        for promised, at in promises(spec, name, title):
            if any(other.name == promised.name for other in self.objectives):
                again = f"is {promised.name!r} a second time: every name is there once"
                at.faults.add(metadata.found["name"].wrong(again) if metadata else at.wrong(again))
            self.notes += at.read(partial(_refused_tiers, promised)) or ()
            self.objectives.append(promised)


def _name(field: Field) -> str:
    if not _NAME.fullmatch(field.text()):
        raise field.wrong(
            f"is {field.text()!r}: write letters, digits, `-`, `_` and `.`, up to 63"
        )
    return field.text()


def _refused_tiers(objective: Objective, at: Field) -> Sequence[str]:
    """A note for each tier that can never fire.

    Raises:
        ObjectivesError: No page could ever fire.
    """
    budget = objective.budget_ratio
    if not any(rule.severity is Severity.PAGE for rule in burn_rules(objective)):
        pages = (
            rule.factor
            for rule in scaled_rules(objective.period_ns)
            if rule.severity is Severity.PAGE
        )
        slowest = min(pages)
        least = math.ceil(10_000 * (1 - 1 / slowest)) / 10_000
        raise at.wrong(
            f"promises {objective.target_ratio:.4g}, so that no page could ever fire: were all "
            f"requests bad, the budget of {budget:.4g} would burn {1 / budget:.3g} times too "
            f"fast, and a page takes {slowest:g} times ({slowest:g} * {budget:.4g} = "
            f"{slowest * budget:.3g} of all requests). Promise at least {least:g}, of a longer "
            "value if need be"
        )
    return [
        f"{at.at}: {objective.name!r}: the tier {rule.factor:g} times over "
        f"{length_text(rule.long_ns)} ({rule.severity}) can never fire: {rule.factor:g} * "
        f"{budget:.4g} of budget = {rule.factor * budget:.3g}, and no more than 1 can be bad: "
        "left out"
        for rule in scaled_rules(objective.period_ns)
        if not can_fire(objective, rule)
    ]
