"""The command line: one file per command."""

import typer

app = typer.Typer(name="latencytrace", no_args_is_help=True, add_completion=False)


def main() -> None:
    """Run the command line."""
    app()
