"""Texts of `--help`: a command's docstring, to be wrapped to the reader's width."""

import inspect
import re
from collections.abc import Callable

_WRAPPED = re.compile(r"\n(?![ \n])(?<!\n\n)")  # a line's end within a paragraph


def help_text(command: Callable[..., None]) -> str:
    """Join each paragraph of its docstring to one line; lines that are indented stay lines."""
    return _WRAPPED.sub(" ", inspect.cleandoc(command.__doc__ or ""))
