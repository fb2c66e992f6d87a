"""One test for a rule that many things keep: it names each that does not."""

import inspect
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def over_all(
    name: str, things: Iterable[T], label: Callable[[T], str] = str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a test of one thing into one test of all of them.

    `pytest.mark.parametrize` makes an item of each thing, and thousands of items that read a file
    take longer to collect and to report than to run.

    Args:
        name: The argument of the test that takes a thing; its other arguments are fixtures.
        things: All of them.
        label: The name of a thing in the list of those that fail.
    """

    def decorated(rule: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(rule)

        def test(**fixtures: object) -> None:
            faults = []
            for thing in things:
                try:
                    rule(**{name: thing}, **fixtures)
                except (AssertionError, SyntaxError, ValueError) as fault:
                    faults.append(f"{label(thing)}: {type(fault).__name__}: {fault}")
            assert not faults, "\n" + "\n".join(faults)

        others = [one for one in signature.parameters.values() if one.name != name]
        test.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined] # read by pytest
        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        test.__module__, test.__qualname__ = rule.__module__, rule.__qualname__
        return test

    return decorated
