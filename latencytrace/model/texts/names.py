"""Names that senders left empty, or blank: they have one name that can be seen and asked for."""

from typing import Final

from latencytrace.model.texts.escaped import is_fit

UNNAMED: Final = "unnamed"

_FILLERS: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")  # letters that have no shape


def is_blank(text: str) -> bool:
    """Return whether nothing of a text can be seen."""
    return all(one.isspace() or one in _FILLERS or not is_fit(one) for one in text)


def named(text: str) -> str:
    """Return a name, or `UNNAMED` in the place of a blank one."""
    return UNNAMED if is_blank(text) else text
