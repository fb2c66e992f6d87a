"""Draws the documentation's pictures: what the commands print, as SVG.

latencytrace demo --once --data FOLDER && python docs/draw_pictures.py FOLDER
"""

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURES = Path(__file__).parent / "pages" / "pictures"
COLUMNS = 140
ROUTE = ("--service", "rag_chat", "--route", "POST /chat")


def draw(name: str, *arguments: str) -> None:
    """Run a command as in a terminal with colours, and keep its output as a picture."""
    printed = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "latencytrace", *arguments],
        env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)},  # noqa: TID251 - handed on
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(printed.rstrip()), soft_wrap=True)
    title = f"latencytrace {arguments[0]}"
    PICTURES.mkdir(exist_ok=True)
    console.save_svg(str(PICTURES / f"{name}.svg"), title=title)


if __name__ == "__main__":
    folder = sys.argv[1]
    draw("breakdown", "breakdown", *ROUTE, "--data", folder)
    draw("trace", "trace", "slowest", *ROUTE, "--data", folder)
