"""`latencytrace compare`: what shifted between two cohorts, and whether it may be chance."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast
from urllib.parse import parse_qsl, quote, urlencode

import typer

from latencytrace.analysis.compare.verdict import AT_LEAST, Verdict
from latencytrace.cli.doctor_checks.no_request import (
    require_known,
    require_version,
    why_none,
)
from latencytrace.cli.pictures import comparison
from latencytrace.cli.pictures.lines import say
from latencytrace.cli.pictures.terminal import say_document, screen, show
from latencytrace.cli.processes import options
from latencytrace.cli.processes.local_service import EXTRA_HINT, service_is_installed
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.cli.source.filters import Filters, with_filters
from latencytrace.errors import NotFoundError, QuestionError, SettingsError
from latencytrace.model.texts.units import count
from latencytrace.service.answers.compare_documents import (
    BaselineDocument,
    BaselinesDocument,
    CompareDocument,
)
from latencytrace.service.answers.sentences.compare import has_new_spells

if TYPE_CHECKING:  # its parts are an extra
    from latencytrace.service.answers.compare import Compared

EXIT_CODES: Final[Mapping[str, int]] = {
    Verdict.REGRESSION: 1,
    Verdict.IMPROVEMENT: 0,
    Verdict.NO_CHANGE: 0,
    Verdict.NOT_ENOUGH_DATA: 3,
}
FILES: Final = (".csv", ".parquet")
_BASELINE: Final = "baseline:"
_MOST_RATIO: Final = 10.0

_Side = Annotated[
    str | None,
    typer.Argument(
        help='A query as "version=1.2&since=1h", baseline:NAME, or a file that `export` wrote.',
        show_default=False,
    ),
]


@with_filters
def compare(
    *,
    a: _Side = None,
    b: _Side = None,
    wanted: Filters,
    at_least: Annotated[
        str, typer.Option(help="The shift from which on a proven one counts: 3% or 0.03.")
    ] = f"{AT_LEAST:.0%}",
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a summary in GitHub's Markdown.")
    ] = False,
    save: Annotated[
        str | None, typer.Option(metavar="NAME", help="Save the last cohort as a baseline.")
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="List the baselines that are saved.")
    ] = False,
    delete: Annotated[str | None, typer.Option(metavar="NAME", help="Delete a baseline.")] = None,
    as_json: options.AsJson = False,
    url: options.Url = None,
    data: options.Data = None,
) -> None:
    """Compare two cohorts: what shifted, by how much, and whether it may be chance.

    Ends with 1 on a proven regression, 3 where there is not enough data or only B had a slow
    spell, else 0. The flags hold
    for both sides, where a side does not say otherwise. With --save, one side is enough.

    Example: latencytrace compare version=1.1 version=1.2 --route "POST /chat"
    """
    ratio = options.ratio(at_least, "--at-least", most=_MOST_RATIO)
    if baselines or delete is not None:
        _keep_house(delete, as_json=as_json, url=url, data=data)
        return
    if b is None and save is None:
        raise typer.BadParameter(
            "name two cohorts, as version=1.1 version=1.2; or save one with --save NAME",
            param_hint="A B",
        )
    document = None if b is None else _compared((a or "", b), wanted, ratio, url, data)
    if document is not None:
        _show(document, (a or "", b or ""), as_json=as_json, as_markdown=markdown)
        for letter, asked in _empty(document, (a or "", b or ""), wanted):
            _explain(letter, asked, url, data, is_said=not (as_json or markdown))
    if save is not None:
        _save(save, a if b is None else b, wanted, url, data, is_said=not (as_json or markdown))
    if document is not None:
        raise typer.Exit(exit_code(document))


def exit_code(document: CompareDocument) -> int:
    """Return the exit code of a verdict: a slow spell that is new lets none of them pass."""
    code = EXIT_CODES.get(document["verdict"], 0)
    is_unsure = code == 0 and has_new_spells(document)
    return EXIT_CODES[Verdict.NOT_ENOUGH_DATA] if is_unsure else code


def _show(
    document: CompareDocument, sides: tuple[str, str], *, as_json: bool, as_markdown: bool
) -> None:
    if as_json:
        say_document(document)
    elif as_markdown:
        for line in comparison.markdown(document, sides).splitlines():
            say(line)
    else:
        page(screen(), *comparison.picture(document, sides))


def written(side: str, wanted: Filters) -> str:
    """A side as the API takes it, with the flags for what it does not say itself.

    Raises:
        typer.BadParameter: It is no query.
    """
    if side.startswith(_BASELINE):
        return side
    try:
        own = parse_qsl(side, keep_blank_values=True, strict_parsing=True) if side else []
    except ValueError:
        raise typer.BadParameter(
            f"{side!r} is no cohort: write KEY=VALUE&KEY=VALUE, {_BASELINE}NAME, or a file that "
            "`latencytrace export` wrote",
            param_hint="A B",
        ) from None
    named = {name for name, _ in own}
    shared = [(name, value) for name, value in wanted.items() if name not in named]
    return urlencode([*shared, *own])


def _compared(
    sides: tuple[str, str], wanted: Filters, ratio: float, url: str | None, data: Path | None
) -> CompareDocument:
    if not any(map(_is_file, sides)):
        a, b = (written(side.strip(), wanted) for side in sides)
        if not (a and b):  # a variable that is not set
            raise typer.BadParameter(
                "a side is empty: say which requests, as version=1.2 or since=1h", param_hint="A B"
            )
        with reading.source(url, data) as source:
            asked = {"a": a, "b": b, "at_least": str(ratio)}
            return cast(CompareDocument, source.document("/compare", asked))
    if not service_is_installed():
        raise SettingsError(f"comparing files needs the service's parts: {EXTRA_HINT}")
    from latencytrace.service.answers.compare import (
        comparison_document,
    )

    tables = [_table(side, wanted, url, data) for side in sides]
    return comparison_document(tables[0], tables[1], ratio)


def _empty(
    document: CompareDocument, sides: tuple[str, str], wanted: Filters
) -> Iterator[tuple[str, Filters]]:
    """The queries among the sides that no request answers, each with its letter."""
    named = zip("AB", sides, (document["a"], document["b"]), strict=True)
    for letter, side, found in named:
        if not (found["requests"] or side.startswith(_BASELINE) or _is_file(side)):
            yield letter, _parameters(written(side, wanted))


def _explain(
    letter: str, asked: Filters, url: str | None, data: Path | None, *, is_said: bool
) -> None:
    """Say which of its filters leaves a side without any request.

    Raises:
        NotFoundError: An unknown name; that is no lack of data.
    """
    with reading.source(url, data) as source:
        try:
            require_known(source, asked)
            require_version(source, asked)
        except NotFoundError as unknown:
            raise NotFoundError(f"{letter}: {unknown}") from None
        if is_said:
            say(f"{letter}: {why_none(source, asked)}")


def _parameters(query: str) -> dict[str, str]:
    asked: dict[str, str] = {}
    for key, value in parse_qsl(query, keep_blank_values=True):
        asked[key] = f"{asked[key]}&{value}" if key in asked else value
    return asked


def _is_file(side: str) -> bool:
    return side.lower().endswith(FILES) and not side.startswith(_BASELINE)


def _table(side: str, wanted: Filters, url: str | None, data: Path | None) -> "Compared":
    """The requests of one side: of a file, or as a source exports them.

    Raises:
        SettingsError: A file cannot be read, or is none of ours.
    """
    from latencytrace.service.answers.compare import compared_table
    from latencytrace.service.store import TableFormat

    if _is_file(side):
        ending = TableFormat(Path(side).suffix.lower().removeprefix("."))
        try:
            return compared_table(Path(side).read_bytes(), ending)
        except OSError as error:
            raise SettingsError(f"{side} cannot be read: {error.strerror}") from None
        except QuestionError as error:
            raise SettingsError(f"{side} cannot be compared: {error}") from None
    query = written(side, wanted)
    with reading.source(url, data) as source:
        if side.startswith(_BASELINE):
            name = quote(side.removeprefix(_BASELINE), safe="")
            body = source.body(f"/baselines/{name}", {})
        else:
            asked = {**_parameters(query), "format": TableFormat.PARQUET.value}
            body = source.body("/ledgers", asked)
    return compared_table(body, TableFormat.PARQUET)


def _save(
    name: str,
    side: str | None,
    wanted: Filters,
    url: str | None,
    data: Path | None,
    *,
    is_said: bool,
) -> None:
    if side is not None and (side.startswith(_BASELINE) or _is_file(side)):
        raise typer.BadParameter(
            f"{side} is saved already: save a query, as version=1.2&since=1h", param_hint="--save"
        )
    if "/" in name or not name.strip("."):  # no address would name it
        raise typer.BadParameter(
            f"{name!r} cannot name a baseline: use letters, digits, dots, dashes and underscores",
            param_hint="--save",
        )
    with reading.source(url, data) as source:
        saved = source.send(
            "PUT",
            f"/baselines/{quote(name, safe='')}",
            {"cohort": written(side or "", wanted)},
        )
    if is_said:
        document = cast(BaselineDocument, saved)
        say(f"Saved {count(document['requests'], 'request')} as {_BASELINE}{document['name']}.")


def _keep_house(delete: str | None, *, as_json: bool, url: str | None, data: Path | None) -> None:
    """Delete a baseline, or list all."""
    with reading.source(url, data) as source:
        if delete is None:
            document = cast(BaselinesDocument, source.document("/baselines", {}))
            if as_json:
                say_document(document)
            else:
                show(screen(), comparison.baselines(document))
            return
        deleted = source.send("DELETE", f"/baselines/{quote(delete, safe='')}", None)
        if as_json:
            say_document(deleted)
        else:
            say(f"Deleted {_BASELINE}{cast(BaselineDocument, deleted)['name']}.")
