"""`python -m dashboards.generate`: write every dashboard beside this package, or elsewhere."""

from argparse import ArgumentParser
from functools import partial
from pathlib import Path

from dashboards.generate.all_dashboards import DASHBOARDS, file_text
from dashboards.generate.trace_sources import TraceKind, TraceSource

FOLDER = Path(__file__).parents[1]


def main() -> None:
    """Write them all."""
    asked = ArgumentParser(prog="python -m dashboards.generate", description=__doc__)
    asked.add_argument("--out", type=Path, default=FOLDER, help="the folder they go to")
    sources = asked.add_mutually_exclusive_group()
    for kind in TraceKind:
        sources.add_argument(
            f"--{kind}",
            metavar="UID",
            type=partial(TraceSource, kind),
            dest="traces",
            help=f"a data source of {kind.capitalize()}, which links lead to as well; with --out",
        )
    given = asked.parse_args()
    if given.traces is not None and given.out.resolve() == FOLDER.resolve():
        asked.error("name a folder of your own, --out FOLDER: these files are as they are made")
    for name, dashboard in DASHBOARDS.items():
        path = given.out / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        made = dashboard if given.traces is None else given.traces.linked(dashboard)
        path.write_text(file_text(made), "utf-8")


main()
