"""A look at a file of rules before it is handed out: what was meant, and nothing that acts."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from typing import Final

from latencytrace.cli.rule_files.prometheus import Document
from latencytrace.errors import LatencytraceError

_ACTION: Final = re.compile(  # from its `{{` to its `}}`; texts in it may have both
    r"""\{\{(?:[^"`'{}\\\n]|\{(?!\{)|\}(?!\})|"(?:[^"\\\n]|\\.)*"|`[^`]*`)*\}\}"""
)
_PROMTOOL: Final = "promtool"
_TIMEOUT_S: Final = 60


def checked(text: str, document: Document, *, are_rules: bool) -> str:
    """A file that was read again and is what was meant.

    Args:
        text: The file, YAML.
        document: What it says.
        are_rules: Of Prometheus: if `promtool` is installed, it is asked, too.

    Raises:
        LatencytraceError: It is not; the message says where. Nothing should be written.
    """
    import yaml  # noqa: PLC0415 - an extra

    if yaml.safe_load(text) != document:
        raise LatencytraceError("the file of rules cannot be read back: please report it")
    for template in _templates(document):
        if "{{" in _ACTION.sub("", template):
            raise LatencytraceError(f"{template!r} is no template of an alert: please report it")
    program = shutil.which(_PROMTOOL) if are_rules else None
    if program is not None:
        _ask(program, text)
    return text


def _templates(value: object) -> Iterator[str]:
    """Labels and annotations of alerts."""
    if isinstance(value, Mapping):
        if "alert" in value or "annotations" in value:
            for name in ("labels", "annotations"):
                texts = value.get(name)
                yield from map(str, texts.values()) if isinstance(texts, Mapping) else ()
        for one in value.values():
            yield from _templates(one)
    elif isinstance(value, list):
        for one in value:
            yield from _templates(one)


def _ask(program: str, text: str) -> None:
    """Have rules checked by Prometheus's own tool.

    Raises:
        LatencytraceError: It has something against them.
    """
    done = subprocess.run(  # noqa: S603 - found on the path, and given no argument of others
        [program, "check", "rules"],
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode:
        said = done.stdout.decode("utf-8", "replace").strip()
        raise LatencytraceError(f"promtool refuses the file of rules: {said}")
