"""Single lines on the terminal; `run` prints no other, and loads no rich for them."""

import sys
from typing import TextIO

from latencytrace.model.texts.escaped import escaped, escaped_lines


def say(line: str = "", *, flush: bool = False) -> None:
    print(encodable(escaped(line), sys.stdout), flush=flush)


def complain(message: str, *, in_lines: bool = False) -> None:
    """Print a message to standard error.

    Args:
        in_lines: Its ends of lines are ours; else it is one line.
    """
    shown = escaped_lines(message) if in_lines else escaped(message)
    print(encodable(f"latencytrace: {shown}", sys.stderr), file=sys.stderr, flush=True)


def encodable(text: str, stream: TextIO) -> str:
    """Return a text that a stream can take: without UTF-8 it has fewer characters."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, errors="backslashreplace").decode(encoding)
