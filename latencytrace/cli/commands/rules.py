"""`latencytrace rules`: the same objectives for Prometheus, and for Grafana's own alerting."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, assert_never

import typer

from latencytrace.cli.commands.objectives import File, read
from latencytrace.cli.pictures.terminal import write_out
from latencytrace.cli.rule_files.grafana import grafana_document
from latencytrace.cli.rule_files.prometheus import Document, RuleSettings, rules_document
from latencytrace.cli.rule_files.tests import tests_document
from latencytrace.errors import LatencytraceError
from latencytrace.model import Objective
from latencytrace.model.objective import EACH_ROUTE
from latencytrace.model.texts.escaped import escaped
from latencytrace.settings import dashboard_url

_ACTION: Final = re.compile(  # from its `{{` to its `}}`; texts in it may have both
    r"""\{\{(?:[^"`'{}\\\n]|\{(?!\{)|\}(?!\})|"(?:[^"\\\n]|\\.)*"|`[^`]*`)*\}\}"""
)
_PROMTOOL: Final = "promtool"
_TIMEOUT_S: Final = 60


def checked(text: str, document: Document, *, are_rules: bool) -> str:
    """A file that was read again and is what was meant.

    Args:
        text: The file, YAML.
        are_rules: Whether they are rules of Prometheus, to be checked by `promtool` too.

    Raises:
        LatencytraceError: It is not; the message says where. Nothing should be written.
    """
    import yaml

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


_LONGEST_S = 300


class RuleFormat(StrEnum):
    """Kinds of rules that can be written."""

    PROMETHEUS = "prometheus"
    TESTS = "tests"
    GRAFANA = "grafana"


def rules(
    file: File = None,
    named: Annotated[
        Path | None,
        typer.Option(
            "--objectives", metavar="FILE", help="The same, as `serve` takes it, without FILE."
        ),
    ] = None,
    kind: Annotated[
        RuleFormat,
        typer.Option(
            "--format", help="Rules for Prometheus, tests of them for promtool, or for Grafana."
        ),
    ] = RuleFormat.PROMETHEUS,
    scrape_interval: Annotated[
        float, typer.Option(help="Seconds between two scrapes of the service.")
    ] = 15,
    interval: Annotated[float, typer.Option(help="Seconds between two evaluations.")] = 30,
    rule_file: Annotated[
        str, typer.Option(help="What the tests call the file of rules.")
    ] = "latencytrace-rules.yaml",
    datasource: Annotated[
        str, typer.Option(help="Grafana's uid of the Prometheus.")
    ] = "prometheus",
) -> None:
    """Write the objectives as alert rules of Prometheus or Grafana.

    Example: latencytrace rules objectives.yaml > latencytrace-rules.yaml
    """
    found = read(file or named)
    for note in found.notes:
        typer.echo(escaped(note), err=True)
    for seconds in (scrape_interval, interval):
        if not 1 <= seconds <= _LONGEST_S:
            raise LatencytraceError(f"an interval lies between 1 and {_LONGEST_S} s")
    settings = RuleSettings(
        scrape_ns=round(scrape_interval * 1e9),
        interval_ns=round(interval * 1e9),
        dashboard_url=dashboard_url(),
    )
    for one in found.objectives:
        if one.slices is not None:
            note = (
                f"{one.name}: no rules, for only the service judges time slices; alert on "
                f'latencytrace_slo_alert_firing{{slo="{one.name}"}} == 1'
            )
            typer.echo(escaped(note), err=True)
    # Rules ask by service and route, so that those of any route hold for each.
    objectives = [
        replace(one, route=None) if one.route == EACH_ROUTE else one
        for one in found.objectives
        if one.slices is None
    ]
    document = _document(kind, objectives, settings, rule_file, datasource)
    are_rules = kind is RuleFormat.PROMETHEUS
    write_out(checked(yaml_text(document), document, are_rules=are_rules).encode())


def _document(
    kind: RuleFormat,
    objectives: Sequence[Objective],
    settings: RuleSettings,
    rule_file: str,
    datasource: str,
) -> Document:
    match kind:
        case RuleFormat.PROMETHEUS:
            return rules_document(objectives, settings)
        case RuleFormat.TESTS:
            return tests_document(objectives, settings, rule_file)
        case RuleFormat.GRAFANA:
            return grafana_document(objectives, settings, datasource)
        case unknown:
            assert_never(unknown)


def yaml_text(document: Mapping[str, object], command: str = "rules") -> str:
    """Write YAML that people can read: long expressions in blocks, order kept.

    Args:
        command: Name of the command, for the first line.
    """
    import yaml

    class Dumper(yaml.SafeDumper):
        """Without anchors."""

        def ignore_aliases(self, data: object) -> bool:
            """Write what is there twice twice."""
            del data
            return True

    def block(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, block)
    head = f"# Written by `latencytrace {command}`; to change it, write it anew.\n"
    return head + yaml.dump(document, Dumper=Dumper, sort_keys=False, width=10_000)
