"""Templates of paths that no framework explains: ids become `{id}`; their number is bounded."""

import re
from collections.abc import Iterator
from threading import Lock
from typing import Final

_MOST: Final = 256  # templates of a process
_SIBLINGS: Final = 24  # words that may follow one prefix; what comes more often is a name
_DEPTH: Final = 8  # segments that a template tells apart
_LONGEST: Final = 48  # characters of a word
_FIRST_FAILURE: Final = 400

_NUMBER = re.compile(r"[0-9][0-9.,:+-]*")
_WORD = re.compile(r"[A-Za-z][A-Za-z]*[0-9]{0,3}|[0-9]{1,4}[A-Za-z]{0,2}")
_HASH = re.compile(r"(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{8,}")
_PARTS = re.compile(r"[-_.~:]")
_PLAIN = re.compile(r"[\w.~:-]+", re.ASCII)
_RANDOM: Final = 10  # characters of letters and digits, mixed
_ID: Final = "{id}"
_NAME: Final = "{name}"


class PathShapes:
    """Finds templates, the same for paths of the same shape.

    Numbers, UUIDs, hashes, tokens, addresses and long texts are `{id}`. Other words stay, as
    many as a program's own routes have: where more follow one prefix they become `{name}`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._words: dict[str, set[str]] = {}  # that follow a template
        self._known: set[str] = set()

    def of(self, path: str) -> str:
        """Return a path's template; once there are too many, `/{path}` for new ones."""
        return self._template(path, admit=True) or "/{path}" if path else ""

    def route(self, path: str, status: int) -> str | None:
        """Return the template of a path that was answered; None: it may be anyone's guess.

        Args:
            path: Path of the request, undecoded.
            status: One that tells of a failure makes no new template.
        """
        return self._template(path, admit=status < _FIRST_FAILURE) or None

    def _template(self, path: str, *, admit: bool) -> str:
        with self._lock:
            template = ""
            for segment in _segments(path):
                is_word = segment not in {"", _ID}
                template += "/" + (
                    self._word(template, segment, admit=admit) if is_word else segment
                )
            if template not in self._known:
                if not admit or len(self._known) >= _MOST:
                    return ""
                self._known.add(template)
            return template

    def _word(self, before: str, word: str, *, admit: bool) -> str:
        """Return a word as it is, or as a name where there are too many."""
        words = self._words.setdefault(before, set()) if admit else self._words.get(before, set())
        if word in words or (admit and len(words) < _SIBLINGS):
            words.add(word)
            return word
        return _NAME


def _segments(path: str) -> Iterator[str]:
    """Divide a path; what is no word is an id, and the deepest are left out."""
    segments = path.removeprefix("/").split("/")
    for segment in segments[:_DEPTH]:
        yield _ID if segment and _is_id(segment) else segment
    if len(segments) > _DEPTH:
        yield _ID


def _is_id(segment: str) -> bool:
    if len(segment) > _LONGEST or not _PLAIN.fullmatch(segment) or _NUMBER.fullmatch(segment):
        return True
    return any(_is_random(part) for part in _PARTS.split(segment))


def _is_random(part: str) -> bool:
    """Tell a number, a hash or a token from a word: `gpt4`, `v2`, `0613` and `8B` are words."""
    if _WORD.fullmatch(part) or not part:
        return False
    digits = sum(character.isdigit() for character in part)
    return (
        bool(_HASH.fullmatch(part)) or digits == len(part) or (digits > 0 and len(part) >= _RANDOM)
    )


SHAPES: Final = PathShapes()  # of this process
