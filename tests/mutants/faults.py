"""Small faults in a source: each is one exact edit, found by the syntax tree."""

import ast
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

ROOMS: Final = (
    *("service/ledgers", "service/sql_store", "service/objectives"),
    *("analysis", "agent/spans", "agent/toolkit"),
)
_COMPARISONS: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: Final[Mapping[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
}
_UNTOUCHED: Final = ("annotation", "returns", "decorator_list", "type_comment", "bases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One edit of a file."""

    file: str  # below the checkout
    within: str  # the function or class
    kind: str
    line: int
    before: str
    after: str
    start: int  # in bytes of the file
    end: int
    plain: bool  # forms in C stand in for some of its file: tests have to run those in Python

    @property
    def name(self) -> tuple[str, ...]:
        """Tell it from others, in another version of the tree, too."""
        return (self.file, self.within, self.kind, self.before, self.after)

    def applied(self, source: bytes) -> bytes:
        """Return the source with the fault in it."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def faults(file: str, source: str) -> list[Fault]:
    """Return all small faults of a source, in order."""
    return sorted(_Finder(file, source).found(), key=lambda one: (one.start, one.kind, one.after))


def picked(all_faults: Iterable[Fault], count: int, seed: int) -> list[Fault]:
    """Draw some of them: rooms and kinds take turns, as long as they have any."""
    draw = random.Random(seed)
    groups: dict[tuple[str, str], list[Fault]] = defaultdict(list)
    for one in all_faults:
        room = next((room for room in ROOMS if f"/{room}/" in one.file), "")
        groups[room, one.kind].append(one)
    waiting = [groups[key] for key in sorted(groups)]
    for group in waiting:
        draw.shuffle(group)
    chosen: list[Fault] = []
    while waiting and len(chosen) < count:
        draw.shuffle(waiting)
        chosen += [group.pop() for group in waiting][: count - len(chosen)]
        waiting = [group for group in waiting if group]
    return chosen


class _Finder:
    """Walks one source."""

    def __init__(self, file: str, source: str) -> None:
        self._file = file
        self._tree = ast.parse(source)
        self._source = source.encode()
        self._plain = "@quicker(" in source
        lines = self._source.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def found(self) -> Iterator[Fault]:
        yield from self._below(self._tree, "")

    def _below(self, node: ast.AST, within: str) -> Iterator[Fault]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            within = f"{within}.{node.name}" if within else node.name
        for kind, place, after in _edits(node):
            yield self._fault(place, after, kind=kind, within=within)
        for field, value in ast.iter_fields(node):
            if field not in _UNTOUCHED:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST) and not _has_no_faults(child):
                        yield from self._below(child, within)

    def _fault(self, place: ast.expr | ast.stmt, after: str, *, kind: str, within: str) -> Fault:
        start = self._starts[place.lineno - 1] + place.col_offset
        end = self._starts[(place.end_lineno or 0) - 1] + (place.end_col_offset or 0)
        return Fault(
            file=self._file,
            within=within,
            kind=kind,
            line=place.lineno,
            before=self._source[start:end].decode(),
            after=after,
            start=start,
            end=end,
            plain=self._plain,
        )


def _has_no_faults(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword) and ast.unparse(node) == "strict=True":
        return True  # it only asserts what holds
    # Before Python 3.12 parts of an f-string do not know where they stand.
    return isinstance(node, ast.JoinedStr)


Edit: TypeAlias = tuple[str, ast.expr | ast.stmt, str]  # the kind, what is replaced, by what


def _edits(node: ast.AST) -> Iterator[Edit]:
    """Yield the faults of one node."""
    if isinstance(node, ast.Constant):
        yield from _of_a_constant(node)
    elif isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp):
        yield from _of_an_operation(node)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "condition", node.test, f"(not {_text(node.test)})"
    elif isinstance(node, ast.Call) and _can_be_swapped(node):
        args = [*node.args[1::-1], *node.args[2:]]
        yield "arguments", node, _text(ast.Call(node.func, args, node.keywords))
    elif _can_be_dropped(node):
        yield "statement", cast("ast.stmt", node), "pass"


def _of_a_constant(node: ast.Constant) -> Iterator[Edit]:
    if isinstance(node.value, bool):
        yield "constant", node, str(not node.value)
    elif isinstance(node.value, int):
        yield "off-by-one", node, str(node.value + 1)
    elif isinstance(node.value, float):
        yield "constant", node, repr(node.value * 2 + 1)


def _of_an_operation(node: ast.Compare | ast.BinOp | ast.BoolOp) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        flipped = [_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
        yield "comparison", node, _text(ast.Compare(node.left, flipped, node.comparators))
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and-or", node, _text(ast.BoolOp(other, node.values))
    elif type(node.op) in _ARITHMETIC and not _of_texts(node):
        turned = _ARITHMETIC[type(node.op)]()
        yield "arithmetic", node, _text(ast.BinOp(node.left, turned, node.right))


def _can_be_dropped(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await)
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    return isinstance(node, ast.AugAssign | ast.Continue)


def _can_be_swapped(call: ast.Call) -> bool:
    args = call.args[:2]
    return (
        len(args) > 1
        and ast.unparse(call.func) not in {"max", "min"}  # of which the order says nothing
        and not any(isinstance(one, ast.Starred) for one in args)
        and ast.dump(args[0]) != ast.dump(args[1])
    )


def _of_texts(node: ast.BinOp) -> bool:
    sides = (node.left, node.right)
    return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in sides)


def _text(node: ast.expr) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"
