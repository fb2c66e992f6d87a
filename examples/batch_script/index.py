"""A batch script: each document is a request of its own, without any server.

latencytrace run -- python examples/batch_script/index.py
"""

import argparse
import inspect
import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import latencytrace

MODULES: tuple[ModuleType, ...] = (argparse, inspect, json, re, sqlite3)
LONGEST = 400  # characters of a passage
PATIENCE_S = 60.0  # for whoever takes the last spans


def documents() -> Iterator[tuple[str, str]]:
    """The documentation of some modules: names and texts."""
    for module in MODULES:
        for name, thing in sorted(vars(module).items()):
            text = inspect.getdoc(thing) if callable(thing) else None
            if text:
                yield f"{module.__name__}.{name}", text


@latencytrace.request("document")
def index(name: str, text: str, store: sqlite3.Connection) -> int:
    """Split a document and store its passages; tell how many there are."""
    with latencytrace.stage("preprocess"):
        passages = list(split(text))
    store.executemany("INSERT INTO passages VALUES (?, ?)", [(name, one) for one in passages])
    store.commit()
    return len(passages)


def split(text: str) -> Iterator[str]:
    """Cut a text at paragraphs; short ones stay together."""
    passage = ""
    for paragraph in re.split(r"\n\s*\n", text):
        if passage and len(passage) + len(paragraph) > LONGEST:
            yield passage
            passage = ""
        passage = f"{passage}\n\n{paragraph}".strip()
    if passage:
        yield passage


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--database", type=Path, default=Path(":memory:"))
    store = sqlite3.connect(arguments.parse_args().database)
    store.execute("CREATE VIRTUAL TABLE IF NOT EXISTS passages USING fts5(name, text)")
    counts = [index(name, text, store) for name, text in documents()]
    print(f"{sum(counts)} passages of {len(counts)} documents")
    store.close()
    latencytrace.flush(PATIENCE_S)


if __name__ == "__main__":
    main()
