"""Fields of a YAML document, each with its line: what is wrong is named where it stands."""

import difflib
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import yaml
from pydantic import BaseModel, ConfigDict, InstanceOf, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from latencytrace.errors import ObjectivesError

MOST_SHOWN = 50  # faults


class Faults(list[ObjectivesError]):
    """The faults of a file, gathered while it is read."""

    def text(self) -> str:
        """A line for each, in the file's order, up to a screenful."""
        found = sorted(self, key=lambda fault: fault.line)
        lines = [str(fault) for fault in found[:MOST_SHOWN]]
        left = len(found) - len(lines)
        return "\n".join([*lines, f"… and {left} more"] if left else lines)


_NULL = "tag:yaml.org,2002:null"  # of `null` and `~`, which are no names


@dataclass(frozen=True, slots=True)
class Field:
    """A value, the path that leads to it, and the line where it is named."""

    file: str
    path: str
    line: int
    node: yaml.Node
    faults: Faults  # of the file

    def wrong(self, problem: str) -> None:
        """Note what is wrong with this field; reading goes on."""
        text = f"{self.at}: {self.path or 'the document'} {problem}"
        self.faults.append(ObjectivesError(text, self.line))

    @property
    def at(self) -> str:
        """The file and the line in which it stands."""
        return f"{self.file}, line {self.line}"

    def names(self) -> set[str]:
        """The names of its fields; none where it is no mapping."""
        if not isinstance(self.node, yaml.MappingNode):
            return set()
        return {str(key.value) for key, _ in self.node.value}

    def part(self, *path: str) -> "Field | None":
        """The field that a path of names leads to; None: there is none."""
        found = self
        for name in path:
            if not isinstance(found.node, yaml.MappingNode):
                return None
            named = [pair for pair in found.node.value if str(pair[0].value) == name]
            if not named:
                return None
            key, value = named[0]
            path_to = f"{found.path}.{name}".lstrip(".")
            found = Field(self.file, path_to, line_of(key), value, self.faults)
        return found

    def child(self, *path: str) -> str | None:
        """The text that a path of names leads to; None: there is none."""
        found = self.part(*path)
        if found is None or not isinstance(found.node, yaml.ScalarNode) or found.is_empty():
            return None
        return found.text()

    def is_empty(self) -> bool:
        """Tell whether nothing is written."""
        return isinstance(self.node, yaml.ScalarNode) and (
            self.node.tag == _NULL or not self.node.value.strip()
        )

    def fields(self, known: Collection[str], *, others: bool) -> "dict[str, Field]":
        """The fields of a mapping.

        Names that are not known, or there twice, are noted; one that is nearly known is
        taken for that one, so that it is not said to be missing, too.

        Args:
            others: Whether it may have fields that are not read.

        Raises:
            ValueError: The field is not a mapping.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise ValueError("must have fields, as `name: value`")  # noqa: TRY004 - pydantic gathers these
        found: dict[str, Field] = {}
        for key, value in self.node.value:
            name = str(key.value)
            path = f"{self.path}.{name}".lstrip(".")
            field = Field(self.file, path, line_of(key), value, self.faults)
            if name in found:
                field.wrong("is there twice: delete one")
            elif name not in known and not others:
                near = difflib.get_close_matches(name, known, 1)
                instead = f"did you mean {near[0]!r}?" if near else f"write {', '.join(known)}"
                field.wrong(f"is not known: {instead}")
                found.update({one: field for one in near if one not in found})
            else:
                found[name] = field
        return found

    def items(self) -> "list[Field]":
        """The items of a list that is not empty.

        Raises:
            ValueError: The field is not such a list.
        """
        if not isinstance(self.node, yaml.SequenceNode) or not self.node.value:
            raise ValueError("must be a list with an entry, as `- …`")
        return [
            Field(self.file, f"{self.path}[{place}]", line_of(node), node, self.faults)
            for place, node in enumerate(self.node.value)
        ]

    def text(self) -> str:
        """A text that is not empty.

        Raises:
            ValueError: The field is not such a text.
        """
        if not isinstance(self.node, yaml.ScalarNode) or self.is_empty():
            raise ValueError("must be a text")
        return str(self.node.value).strip()


class Part(BaseModel):
    """A mapping of the file: the fields of a model of it are the names that it may have.

    Attributes:
        at: Where it stands.
        found: Its fields as they are written.
    """

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, extra="ignore")

    at: InstanceOf[Field]
    found: InstanceOf[dict[str, Field]]

    @classmethod
    def read(cls, field: Field) -> Self | None:
        """Return what a field says; None: something in it is wrong, which is noted."""
        try:
            return cls.model_validate(field)
        except ValidationError as error:
            faults = error.errors(include_url=False)
        excused: set[tuple[int | str, ...]] = set()
        for fault in faults:
            if "ctx" in fault:  # our ValueError: the problem, and the field to write instead
                problem, *instead = fault["ctx"]["error"].args
                fault["input"].wrong(problem)
                excused.update((*fault["loc"][:-1], name) for name in instead)
        for fault in faults:
            if "ctx" not in fault and fault["loc"] not in excused:
                fault["input"]["at"].wrong(f"has no {fault['loc'][-1]!r}: add it")
        return None

    @model_validator(mode="before")
    @classmethod
    def _from_field(cls, given: Field) -> dict[str, object]:
        known = [info.alias or name for name, info in cls.model_fields.items()]
        found = given.fields(
            known[len(Part.model_fields) :], others=cls.model_config.get("extra") == "allow"
        )
        return {**found, "at": given, "found": found}


def line_of(node: yaml.Node) -> int:
    """The line that a value begins in."""
    return int(node.start_mark.line) + 1


MAX_CHARACTERS = 1_000_000
_MARKER = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_FIXES = {
    "'\\t'": "write spaces",
    "mapping values are not allowed": (
        "quote a text that has a colon, indent fields alike, and see that the line above is one"
    ),
    "but got ':'": "close the bracket, or quote a text that has a colon",
    "but got '<stream end>'": "close the bracket",
    "expected ',' or": "close the bracket, and put a comma between two entries",
    "expected <block end>": "indent fields alike",
    "could not find expected ':'": "write `name: value`",
    "found unexpected end of stream": "close the quote",
    "while scanning a quoted scalar": "close the quote",
    "found undefined alias": "quote a text that begins with `*`",
    "cannot start any token": "quote a text that begins with such a character",
}


def documents(text: str, file: str, faults: Faults) -> Iterator[Field]:
    """The documents of a YAML text, without the empty ones.

    One that is not YAML is noted with the line; the others are read nevertheless.

    Raises:
        ObjectivesError: The text is too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise ObjectivesError(f"{file} is longer than {MAX_CHARACTERS:,} characters")
    for node in _nodes(text, file, faults):
        if node.tag != "tag:yaml.org,2002:null":
            yield Field(file, "", line_of(node), node, faults)


def _nodes(text: str, file: str, faults: Faults) -> list[yaml.Node]:
    try:
        return _composed(text)
    except (yaml.YAMLError, RecursionError):
        starts = [0, *(found.start() for found in _MARKER.finditer(text) if found.start()), None]
    nodes: list[yaml.Node] = []
    for start, stop in pairwise(starts):
        line = text.count("\n", 0, start)
        try:
            nodes += _composed(text[start:stop], line)
        except (yaml.YAMLError, RecursionError) as error:
            faults.append(_not_yaml(error, file, line + 1))
    return nodes


def _composed(text: str, first_line: int = 0) -> list[yaml.Node]:
    loader = yaml.SafeLoader(text)
    loader.line = first_line
    nodes: list[yaml.Node] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            nodes += [] if node is None else [node]
    finally:
        loader.dispose()
    return nodes


def _not_yaml(error: Exception, file: str, first_line: int) -> ObjectivesError:
    if not isinstance(error, yaml.MarkedYAMLError):
        reason = (
            "nested too deeply"
            if isinstance(error, RecursionError)
            else str(error).splitlines()[0]
        )
        return ObjectivesError(f"{file}, line {first_line}: not YAML: {reason}", first_line)
    mark = error.problem_mark or error.context_mark
    line = first_line if mark is None else mark.line + 1
    problem = str(error.problem)
    fix = next((fix for part, fix in _FIXES.items() if part in problem), None)
    said = problem if fix is None else f"{problem}: {fix}"
    begun = error.context_mark
    if begun is not None and begun.line + 1 < line:
        said += f" (of what begins in line {begun.line + 1})"
    return ObjectivesError(f"{file}, line {line}: not YAML: {said}", line)
