"""Fields of a YAML document, each with its line: what is wrong is named where it stands."""

import difflib
import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import yaml

from latencytrace.errors import ObjectivesError

MAX_CHARACTERS = 1_000_000
_TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Field:
    """A value, the path that leads to it, and the line where it is named."""

    file: str
    path: str
    line: int
    node: yaml.Node

    def wrong(self, problem: str) -> ObjectivesError:
        """An error that names this field."""
        return ObjectivesError(f"{self.at}: {self.path or 'the document'} {problem}")

    @property
    def at(self) -> str:
        """Where it stands."""
        return f"{self.file}, line {self.line}"

    def fields(self, known: Collection[str], *, others: bool = False) -> "Fields":
        """The fields of a mapping.

        Args:
            known: Their names.
            others: Whether it may have fields that nobody reads.

        Raises:
            ObjectivesError: It is none, or has others.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong("must have fields, as `name: value`")
        found: dict[str, Field] = {}
        for key, value in self.node.value:
            name = str(key.value)
            path = f"{self.path}.{name}".lstrip(".")
            field = Field(self.file, path, _line(key), value)
            if name in found:
                raise field.wrong("is there twice: delete one")
            if name not in known and not others:
                near = difflib.get_close_matches(name, known, 1)
                instead = f"did you mean {near[0]!r}?" if near else f"write {', '.join(known)}"
                raise field.wrong(f"is not known: {instead}")
            found[name] = field
        return Fields(self, found)

    def items(self) -> "list[Field]":
        """The items of a list that is not empty."""
        if not isinstance(self.node, yaml.SequenceNode) or not self.node.value:
            raise self.wrong("must be a list with an entry, as `- …`")
        return [
            Field(self.file, f"{self.path}[{place}]", _line(node), node)
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

    def text_or_none(self, name: str) -> str | None:
        """A text that may be left out."""
        field = self.found.get(name)
        return None if field is None else field.text()


def documents(text: str, file: str) -> Iterator[Field]:
    """The documents of a YAML text, without the empty ones.

    Raises:
        ObjectivesError: It is not YAML; the message names the line.
    """
    if len(text) > MAX_CHARACTERS:
        raise ObjectivesError(f"{file} is longer than {MAX_CHARACTERS:,} characters")
    try:
        nodes = list(yaml.compose_all(text, yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        raise ObjectivesError(f"{file}{line}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ObjectivesError(f"{file}: not YAML: {error}") from None
    for node in nodes:
        if node.tag != "tag:yaml.org,2002:null":
            yield Field(file, "", _line(node), node)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
