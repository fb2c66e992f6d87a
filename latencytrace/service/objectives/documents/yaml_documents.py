"""The documents of a YAML text, each read on its own: one that is broken hides no other."""

import re
from collections.abc import Iterator
from itertools import pairwise

import yaml

from latencytrace.errors import ObjectivesError
from latencytrace.service.objectives.documents.yaml_fields import Faults, Field, line_of

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
