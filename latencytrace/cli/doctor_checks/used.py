"""The distributions that a program uses: those it imports, and what these need in turn."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from typing import Final

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
        """Tell whether its own source imports a distribution."""
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
