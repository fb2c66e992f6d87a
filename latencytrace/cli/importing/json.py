"""Reads long JSON piece by piece: a document a line, one document, or several in a row.

The items of the long lists of OTLP, Tempo and Jaeger are read one at a time, so that no file
is too long, and what stands before a fault is kept.
"""

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from latencytrace.errors import OtlpError

LONG_LISTS: Final = frozenset({"resourceSpans", "resource_spans", "batches", "data"})
MAX_CHARACTERS: Final = 256 * 1024 * 1024  # of one item

_SPACE = " \t\r\n"
_LONGEST_CUT = 2  # characters: a point, or an exponent's letter and sign
_NEAR_THE_END = 16  # characters: a literal, number or escape that is cut off begins there


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of a list, or what a document holds besides its long lists."""

    line: int  # where it begins
    list_name: str | None  # "": of a list at the top; None: of no list
    value: object
    is_rest: bool = False  # the document had a long list as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Name what could not be read."""

    line: int
    reason: str


class _MalformedError(Exception):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


class JsonReader:
    """Reads items; after a fault it goes on with the next line that begins an object.

    Args:
        chunks: UTF-8 text in pieces.
    """

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._decode_bytes = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False
        self._broken: str | None = None  # why the chunks ended too early

    def items(self) -> Iterator[Item | Fault]:
        """Everything, in the order of the file."""
        going = True
        while going:
            going = False
            try:
                while self._next_character():
                    yield from self._document()
            except _MalformedError as error:
                if self._broken is None or str(error) != _CUT:  # else that is the reason
                    yield Fault(line=error.line, reason=str(error))
                going = self._skip_to_an_object()
        if self._broken is not None:
            yield Fault(line=self._line, reason=self._broken)

    def _document(self) -> Iterator[Item]:
        line = self._line
        match self._next_character():
            case "[":
                yield from self._list("")
            case "{":
                yield from self._object(line)
            case _:
                raise _MalformedError(line, "neither OTLP nor Jaeger: no JSON object")

    def _object(self, line: int) -> Iterator[Item]:
        self._take("{")
        rest: dict[str, object] = {}
        has_list = False
        while self._next_character() != "}":
            key = self._value()
            if not isinstance(key, str):
                raise _MalformedError(self._line, "not JSON: a key is no text")
            self._take(":")
            if key in LONG_LISTS and self._next_character() == "[":
                has_list = True
                yield from self._list(key)
            else:
                rest[key] = self._value()
            if self._next_character() != "}":
                self._take(",")
        self._take("}")
        if rest or not has_list:
            yield Item(line=line, list_name=None, value=rest, is_rest=has_list)

    def _list(self, name: str) -> Iterator[Item]:
        self._take("[")
        while self._next_character() != "]":
            yield Item(line=self._line, list_name=name, value=self._value())
            if self._next_character() != "]":
                self._take(",")
        self._take("]")

    def _take(self, character: str) -> None:
        found = self._next_character()
        if found != character:
            raise _MalformedError(
                self._line, f"not JSON: {character!r} expected, not {found!r}" if found else _CUT
            )
        self._move_to(self._at + 1)

    def _next_character(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            at = self._at
            while at < len(self._text) and self._text[at] in _SPACE:
                at += 1
            self._move_to(at)
            if at < len(self._text):
                return self._text[at]
            if not self._read_more():
                return ""

    def _value(self) -> object:
        """The value that begins here."""
        self._next_character()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                self._read_on(error)
            except (ValueError, RecursionError) as error:  # thousands of digits, of brackets
                raise _MalformedError(self._line, f"not JSON: {error}") from None
            else:
                # A number at the very end may go on: of `1.5e+7` so far `1.5e+` may be there.
                length = end - self._at
                if end < len(self._text) - _LONGEST_CUT or not self._read_more():
                    self._move_to(self._at + length)
                    return value

    def _read_on(self, error: json.JSONDecodeError) -> None:
        """Read more, if that may mend it."""
        line = self._line + self._text.count("\n", self._at, error.pos)
        may_be_cut = error.msg.startswith("Unterminated") or (
            error.pos >= len(self._text) - _NEAR_THE_END
        )
        if may_be_cut and self._read_more():
            return
        where = "" if line == self._line else f" (at line {line})"
        raise _MalformedError(
            self._line, _CUT if may_be_cut else f"not JSON: {error.msg}{where}"
        ) from None

    def _move_to(self, at: int) -> None:
        self._line += self._text.count("\n", self._at, at)
        self._at = at

    def _read_more(self) -> bool:
        """Read as much as is there already, at least a chunk; False: the end."""
        if self._ended:
            return False
        kept_from = max(self._at - 1, 0)  # whether a line begins here shows before it
        left = self._text[kept_from:]
        if len(left) > MAX_CHARACTERS:
            raise _MalformedError(self._line, f"longer than {MAX_CHARACTERS} characters")
        parts = [left]
        size = 0
        while size < max(len(left), 1) and not self._ended:
            try:
                chunk = next(self._chunks, None)
            except OtlpError as error:
                self._broken = str(error)
                chunk = None
            self._ended = chunk is None
            parts.append(self._decode_bytes(chunk or b"", self._ended))
            size += len(parts[-1])
        self._text = "".join(parts)
        self._at -= kept_from
        return size > 0

    def _skip_to_an_object(self) -> bool:
        """Move to the next line that begins with `{`."""
        while True:
            found = self._text.find("\n{", max(self._at - 1, 0))
            if found >= 0:
                self._move_to(found + 1)
                return True
            self._move_to(max(self._at, len(self._text) - 1))
            if not self._read_more():
                return False


_CUT = "it is cut off: the file ends in its middle"
