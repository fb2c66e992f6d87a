"""Reads objectives from an OpenSLO v1 file, and says by line all that is wrong in it.

Source: the OpenSLO specification, version 1 (github.com/OpenSLO/OpenSLO).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from latencytrace.analysis.slo.burn_rate import burn_rules, can_fire, scaled_rules
from latencytrace.errors import ObjectivesError
from latencytrace.model import Objective, Severity
from latencytrace.model.objective import length_text
from latencytrace.service.objectives.fields import OTHER_KINDS, Document, Metadata, Spec
from latencytrace.service.objectives.yaml_documents import documents
from latencytrace.service.objectives.yaml_fields import Faults, Field

MAX_OBJECTIVES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivesFile:
    """The objectives of a file, and notes on how it was understood."""

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
        read.add(document)
    if faults:
        raise ObjectivesError(faults.text())
    if not read.objectives:
        raise ObjectivesError(f"{file} has no document of `kind: SLO`: it has no objective")
    if len(read.objectives) > MAX_OBJECTIVES:
        raise ObjectivesError(
            f"{file} has {len(read.objectives)} objectives, more than {MAX_OBJECTIVES}: set "
            "those that a user would notification, a route at a time"
        )
    return ObjectivesFile(objectives=tuple(read.objectives), notes=tuple(read.notes))


@dataclass(slots=True)
class _Read:
    """The objectives and notes read by now."""

    objectives: list[Objective] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, field: Field) -> None:
        """Read a document; its faults are noted."""
        if field.names().isdisjoint({"apiVersion", "kind"}):
            field.wrong("is no objective: begin it with `apiVersion: openslo/v1` and `kind: SLO`")
            return
        document = Document.read(field)
        if document is not None and document.kind == "SLO":
            self._add_objectives(document)
        elif document is not None and document.kind in OTHER_KINDS:
            self.notes.append(f"{field.at}: a {document.kind} is not read")

    def _add_objectives(self, document: Document) -> None:
        for name in ("metadata", "spec"):
            if name not in document.found:
                document.at.wrong(f"has no {name!r}: add it")
        metadata = Metadata.read(document.metadata) if document.metadata else None
        spec = Spec.read(document.spec) if document.spec else None
        if spec and "alertPolicies" in spec.found:
            policies = spec.found["alertPolicies"]
            self.notes.append(f"{policies.at}: alertPolicies are not read, the tiers are fixed")
        if spec is None or metadata is None:
            return
        for objective, at in spec.named(metadata):
            if any(other.name == objective.name for other in self.objectives):
                again = f"is {objective.name!r} a second time: every name is there once"
                metadata.found["name"].wrong(again)
            self.notes += _refused_tiers(objective, at)
            self.objectives.append(objective)


def _refused_tiers(objective: Objective, at: Field) -> Sequence[str]:
    """A note for each tier that can never fire; that no page could is noted as a fault."""
    budget = objective.budget_ratio
    if not any(rule.severity is Severity.PAGE for rule in burn_rules(objective)):
        pages = (
            rule.factor
            for rule in scaled_rules(objective.period_ns)
            if rule.severity is Severity.PAGE
        )
        slowest = min(pages)
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
        f"{length_text(rule.long_ns)} ({rule.severity}) can never fire: {rule.factor:g} * "
        f"{budget:.4g} of budget = {rule.factor * budget:.3g}, and no more than 1 can be bad: "
        "left out"
        for rule in scaled_rules(objective.period_ns)
        if not can_fire(objective, rule)
    ]
