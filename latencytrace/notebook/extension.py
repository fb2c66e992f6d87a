"""The IPython extension: `%load_ext latencytrace`, then `%%latencytrace` at the top of a cell."""

import ast
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import display

from latencytrace.agent.api.requests import request
from latencytrace.notebook.spans import CellSpans
from latencytrace.notebook.traced_cell import TracedCell

CELL: Final = "cell"  # its route, unless it is given a name
_loaded: "CellMagics | None" = None


@magics_class
class CellMagics(Magics):  # type: ignore[misc]  # IPython has no types
    """Runs cells as requests, and shows where their time went."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.spans = CellSpans()
        self.spans.take()

    @cell_magic("latencytrace")  # type: ignore[untyped-decorator]
    def cell(self, line: str, cell: str) -> object:
        """Run a cell as one request, and show its breakdown and its waterfall.

        `%%latencytrace NAME` names it. Requests that the cell itself makes have ledgers of
        their own. The value of its last line is the cell's, as ever.
        """
        self.spans.set_aside()
        name = line.strip() or CELL
        try:
            with request(name):
                return self._run(cell)
        finally:
            display(TracedCell(*self.spans.take(), name))

    @line_magic("latencytrace")  # type: ignore[untyped-decorator]
    def show(self, line: str = "") -> None:
        """Show the requests since the last ones that were shown: of a cell that awaits, say."""
        del line
        display(TracedCell(*self.spans.take(with_aside=True)))

    def _run(self, cell: str) -> object:
        """Run a cell as IPython does; return the value of an expression at its end."""
        shell: Any = self.shell
        source = shell.transform_cell(cell)
        file = shell.compile.cache(source, shell.execution_count)
        tree = shell.transform_ast(shell.compile.ast_parse(source, filename=file))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        body = shell.compile(tree, file, "exec")
        # Both before anything runs: what cannot be compiled has done nothing.
        value_of = (
            None if last is None else shell.compile(ast.Expression(last.value), file, "eval")
        )
        exec(body, shell.user_ns)  # noqa: S102 - the user's own cell
        if value_of is None:
            return None
        value = eval(value_of, shell.user_ns)  # noqa: S307 - the user's own code
        return None if shell.displayhook.semicolon_at_end_of_expression(source) else value


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Start to trace the notebook, and bring the magics."""
    global _loaded  # noqa: PLW0603 - one a process, as the agent
    unload_ipython_extension(shell)
    _loaded = CellMagics(shell)
    shell.register_magics(_loaded)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Stop."""
    global _loaded  # noqa: PLW0603 - one a kernel
    if _loaded is None:
        return
    magics = shell.magics_manager.magics
    for kind in ("line", "cell"):
        magics[kind].pop("latencytrace", None)
    _loaded.spans.close()
    _loaded = None
