"""`python -m dashboards.generate`: write every dashboard beside this package."""

from pathlib import Path

from dashboards.generate.all_dashboards import DASHBOARDS, file_text

FOLDER = Path(__file__).parents[1]


def main() -> None:
    """Write them all."""
    for name, dashboard in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(file_text(dashboard), "utf-8")


main()
