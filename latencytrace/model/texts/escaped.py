"""Texts of senders made fit to be shown: a name must not steer the terminal that prints it."""

import re
from functools import cache
from typing import Final

# Controls (C0, DEL, C1), what is invisible or turns the direction of writing, halves of pairs.
_HIDDEN: Final = (
    "\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb"
    "\\ud800-\\udfff\\U000e0000-\\U000e007f"
)
_CONTROLS: Final = "\\x00-\\x1f"
_CONTROLS_BUT_LINES: Final = "\\x00-\\x09\\x0b-\\x1f"
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_TWO_DIGITS, _FOUR_DIGITS = 0xFF, 0xFFFF


def escaped(text: str) -> str:
    r"""A text on one line with nothing in it that acts: an escape character is `\x1b`."""
    return _unfit(_CONTROLS).sub(_escape, text)


def escaped_lines(text: str) -> str:
    """The same, where the text's own lines are ours."""
    return _unfit(_CONTROLS_BUT_LINES).sub(_escape, text)


def escaped_json(text: str) -> str:
    """JSON that means the same, with nothing in it that acts."""
    return _unfit("").sub(_escape_in_json, text)  # its encoder escapes the rest


def is_fit(character: str) -> bool:
    return _unfit(_CONTROLS).match(character) is None


@cache
def _unfit(controls: str) -> re.Pattern[str]:
    """Return what finds these and what is hidden; to make it takes longer than `run` needs it."""
    return re.compile(f"[{controls}{_HIDDEN}]")


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code <= _TWO_DIGITS:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _FOUR_DIGITS else f"\\U{code:08x}"


def _escape_in_json(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= _FOUR_DIGITS:
        return f"\\u{code:04x}"
    above = code - 0x10000  # JSON has pairs
    return f"\\u{0xD800 + (above >> 10):04x}\\u{0xDC00 + (above & 0x3FF):04x}"


UNNAMED: Final = "unnamed"

_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters that have no shape


def is_blank(text: str) -> bool:
    """Return whether nothing of a text can be seen."""
    return all(one.isspace() or one in _FILLERS or not is_fit(one) for one in text)


def named(text: str) -> str:
    """Return a name, or `UNNAMED` in the place of a blank one."""
    return UNNAMED if is_blank(text) else text


_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


def written_trace_id(text: str) -> str:
    """The trace id, or the beginning of one, that was typed; of a `traceparent` its own."""
    written = text.strip().lower()
    parent = _TRACEPARENT.fullmatch(written)
    return parent[1] if parent else written
