"""Libraries that programs serve with and that no hook times: what to do instead."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from typing import Final

from latencytrace.model.stage import Stage
from latencytrace.service.answers.findings.finding import Finding

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SEPARATORS: Final = re.compile(r"[-_.]+")


@dataclass(frozen=True)
class Used:
    """Modules that a program imports, by its source; None: unknown, so that it may be anything."""

    modules: frozenset[str] | None = None

    @cached_property
    def imported(self) -> frozenset[str]:
        """The distributions that it imports itself, by their plain names."""
        tops = {name.partition(".")[0] for name in self.modules or ()}
        provided = packages_distributions()
        return frozenset(_plain(each) for top in tops for each in provided.get(top, ()))

    @cached_property
    def needed(self) -> frozenset[str]:
        """Those, and what they require in turn, whatever their extras."""
        found: set[str] = set()
        waiting = list(self.imported)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(_required_by(name))
        return frozenset(found)

    def may_use(self, distributions: Iterable[str]) -> bool:
        """Tell whether the program may use one of these; without any, any program does."""
        names = {_plain(each) for each in distributions}
        return self.modules is None or not names or not names.isdisjoint(self.needed)

    def imports(self, distribution: str) -> bool:
        return self.modules is not None and _plain(distribution) in self.imported


def _required_by(name: str) -> Iterator[str]:
    """Yield what a distribution requires, but for what only an extra does."""
    try:
        wanted = requires(name) or ()
    except PackageNotFoundError:
        return
    for requirement in wanted:
        named = _NAME.match(requirement)
        if named is not None and "extra ==" not in requirement:
            yield _plain(named.group())


def _plain(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


# The stage that its calls would mostly be of, by distribution.
UNHOOKED: Final = {
    **dict.fromkeys(
        (
            "annoy", "pgvecto-rs", "whoosh",
        ),
        Stage.RETRIEVE,
    ),
    **dict.fromkeys(
        (
            "cassandra-driver", "clickhouse-connect", "mysqlclient", "neo4j", "oracledb",
            "pymssql", "pymysql", "pyodbc", "snowflake-connector-python",
        ),
        Stage.DATABASE,
    ),
    **dict.fromkeys(
        (
            "flair", "mlx", "tensorflow", "tensorrt", "timm", "tritonclient",
        ),
        Stage.FORWARD,
    ),
    "model2vec": Stage.EMBED,
    **dict.fromkeys(("exllamav2", "mlx-lm", "sglang", "tensorrt-llm", "vllm"), Stage.DECODE),
    **dict.fromkeys(("groq", "together", "voyageai"), Stage.REMOTE_MODEL),
    "librosa": Stage.PREPROCESS,
    "diskcache": Stage.CACHE,
}  # fmt: skip
_TORCH: Final = "torch"
# Their hooks time the models of torch that they run.
_RUN_TORCH: Final = ("transformers", "sentence-transformers", "infinity-emb", "diffusers")


def unhooked_findings(used: Used, about: str, *, torch_named: bool) -> Iterator[Finding]:
    """Name what the program imports and no hook times.

    Args:
        used: What the program imports.
        torch_named: Whether the settings name modules of torch.
    """
    for name, stage in UNHOOKED.items():
        if used.imports(name):
            yield Finding.note(
                about,
                f"{_with_version(name)}: no hook times it",
                f'with latencytrace.stage("{stage}"):',
            )
    by_itself = used.imports(_TORCH) and not any(used.imports(name) for name in _RUN_TORCH)
    if by_itself and not torch_named:
        yield Finding.note(
            about,
            f"{_with_version(_TORCH)}: modules are timed by name",
            "export LATENCYTRACE_TORCH_MODULES=… the classes that matter",
        )


def _with_version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name
