"""Fields of a YAML document, each with its line: what is wrong is named where it stands."""

import difflib
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import yaml

from latencytrace.errors import ObjectivesError

Value = TypeVar("Value")

MOST_SHOWN = 50  # faults
_TRUTHS = {"true": True, "false": False}


class Faults:
    """What is wrong in a file, gathered while it is read."""

    def __init__(self) -> None:
        self._found: list[ObjectivesError] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, fault: ObjectivesError) -> None:
        """Note what is wrong."""
        self._found.append(fault)

    def text(self) -> str:
        """A line for each, in the file's order, up to a screenful."""
        found = sorted(self._found, key=lambda fault: fault.line)
        lines = [str(fault) for fault in found[:MOST_SHOWN]]
        left = len(found) - len(lines)
        return "\n".join([*lines, f"… and {left} more"] if left else lines)


@dataclass(frozen=True, slots=True)
class Field:
    """A value, the path that leads to it, and the line where it is named."""

    file: str
    path: str
    line: int
    node: yaml.Node
    faults: Faults  # of the file

    def wrong(self, problem: str) -> ObjectivesError:
        """An error that names this field."""
        return ObjectivesError(f"{self.at}: {self.path or 'the document'} {problem}", self.line)

    def read(self, how: Callable[["Field"], Value]) -> Value | None:
        """What is read of it; None: it is wrong, which is noted, so that reading goes on."""
        try:
            return how(self)
        except ObjectivesError as error:
            self.faults.add(error)
            return None

    @property
    def at(self) -> str:
        """Where it stands."""
        return f"{self.file}, line {self.line}"

    def names(self) -> set[str]:
        """The names of its fields; none where it is no mapping."""
        if not isinstance(self.node, yaml.MappingNode):
            return set()
        return {str(key.value) for key, _ in self.node.value}

    def fields(self, known: Collection[str], *, others: bool = False) -> "Fields":
        """The fields of a mapping.

        Names that are not known, or there twice, are noted; one that is nearly known is
        taken for that one, so that it is not said to be missing, too.

        Args:
            known: Their names.
            others: Whether it may have fields that nobody reads.

        Raises:
            ObjectivesError: It is none.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong("must have fields, as `name: value`")
        found: dict[str, Field] = {}
        for key, value in self.node.value:
            name = str(key.value)
            path = f"{self.path}.{name}".lstrip(".")
            field = Field(self.file, path, line_of(key), value, self.faults)
            if name in found:
                self.faults.add(field.wrong("is there twice: delete one"))
            elif name not in known and not others:
                near = difflib.get_close_matches(name, known, 1)
                instead = f"did you mean {near[0]!r}?" if near else f"write {', '.join(known)}"
                self.faults.add(field.wrong(f"is not known: {instead}"))
                found.update({one: field for one in near if one not in found})
            else:
                found[name] = field
        return Fields(self, found)

    def items(self) -> "list[Field]":
        """The items of a list that is not empty."""
        if not isinstance(self.node, yaml.SequenceNode) or not self.node.value:
            raise self.wrong("must be a list with an entry, as `- …`")
        return [
            Field(self.file, f"{self.path}[{place}]", line_of(node), node, self.faults)
            for place, node in enumerate(self.node.value)
        ]

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip():
            raise self.wrong("must be a text")
        return str(self.node.value).strip()

    def number(self, advice: str) -> float:
        """A finite number."""
        text = self.text()
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.wrong(f"is {text!r}, no number: {advice}")
        return value

    def truth(self) -> bool:
        """True or false."""
        value = _TRUTHS.get(self.text().lower())
        if value is None:
            raise self.wrong(f"is {self.text()!r}: write true or false")
        return value

    def one_of(self, known: Collection[str]) -> str:
        """One of these words."""
        text = self.text()
        if text not in known:
            raise self.wrong(f"is {text!r}: write {' or '.join(known)}")
        return text


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one mapping, by name."""

    of: Field
    found: dict[str, Field]

    def needed(self, name: str) -> Field:
        """A field that must be there."""
        field = self.found.get(name)
        if field is None:
            raise self.of.wrong(f"has no {name!r}: add it")
        return field

    def read(self, name: str, how: Callable[[Field], Value]) -> Value | None:
        """What is read of a field; None: it is missing or wrong, which is noted."""
        return self.of.read(lambda _: how(self.needed(name)))

    def text_or_none(self, name: str) -> str | None:
        """A text that may be left out; a wrong one is noted."""
        field = self.found.get(name)
        return None if field is None else field.read(Field.text)


def line_of(node: yaml.Node) -> int:
    """The line that a value begins in."""
    return int(node.start_mark.line) + 1
