"""Whatever stands where we patch is called as Python calls it, whoever patches first or last."""

import functools
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from unittest import mock  # which programs put into our places

import pytest
import wrapt

from latencytrace.agent.timing.hook import Hook, Patch, Replacement, Timed
from latencytrace.agent.timing.patching import AppliedHook, HookState
from latencytrace.model import Stage
from tests.support.agent.forms import FORMS, outcome
from tests.support.agent.hooked import Spans

MODULE = "a_patched_library"
Library = Any  # a module of a test's own


def passing(wrapped: Timed, _instance: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, **kwargs)


def wrapped(function: Any) -> Any:
    return wrapt.FunctionWrapper(function, passing)


def is_of_wrapt(own: object) -> bool:
    """Tell by the type: tools that look for a wrapper of their own look for wrapt's."""
    return issubclass(type(own), wrapt.FunctionWrapper)


class Custom:
    """A descriptor of a program's own, of which a call without an instance is an error."""

    def __init__(self, function: Timed) -> None:
        self.function = function

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self.function, instance)


class Callable_(Custom):  # noqa: N801 - not the type
    """One that can be called, but not as a method."""

    def __call__(self, *_: object) -> None:
        """Refuse."""
        raise TypeError("it has no instance")


class Answers:
    """A callable that is no function and binds nothing."""

    def __call__(self, text: str) -> tuple[str, str]:
        """Answer."""
        return "unbound", text


def method(self: object, text: str, *, more: str = "") -> tuple[str, str]:
    return type(self).__name__, text + more


def free(text: str) -> tuple[str, str]:
    return "unbound", text


KINDS: dict[str, Callable[[], object]] = {
    "function": lambda: method,
    "classmethod": lambda: classmethod(lambda cls, text: (cls.__name__, text)),
    "staticmethod": lambda: staticmethod(free),
    "partialmethod": lambda: functools.partialmethod(method, more=""),
    "partialmethod of a classmethod": lambda: functools.partialmethod(
        classmethod(lambda cls, _, text: (cls.__name__, text)), 1
    ),
    "wrapt of a function": lambda: wrapped(method),
    "wrapt of a classmethod": lambda: wrapped(classmethod(lambda cls, text: (cls.__name__, text))),
    "wrapt of a staticmethod": lambda: wrapped(staticmethod(free)),
    "classmethod of a wrapt": lambda: classmethod(
        wrapt.FunctionWrapper(lambda cls, text: (cls.__name__, text), passing)
    ),
    "staticmethod of a wrapt": lambda: staticmethod(wrapped(free)),
    "wrapt twice": lambda: wrapped(wrapped(method)),
    "own descriptor": lambda: Custom(method),
    "own descriptor that can be called": lambda: Callable_(method),
    "own object that can be called": Answers,
    "property": lambda: property(lambda self: functools.partial(method, self)),
    "bound method of another": lambda: Answers().__call__,
    "partial": lambda: functools.partial(free),
    "C function": lambda: len,
    "cached": lambda: functools.lru_cache(method),
}


class Meta(type):
    """A class of classes that can be called, and with a method of its own."""

    def __call__(cls, *args: object) -> Any:
        """Make an instance."""
        return super().__call__(*args)

    def call(cls, text: str) -> tuple[str, str]:
        """Answer for the metaclass."""
        return "of the metaclass", text


@pytest.fixture
def library() -> Iterator[Library]:
    module = sys.modules[MODULE] = ModuleType(MODULE)
    yield module
    del sys.modules[MODULE]


def library_class(module: Library, own: object, *, meta: type = type, of: type = object) -> Any:
    made = meta("Library", (of,), {"call": own, "__module__": MODULE, "__qualname__": "Library"})
    module.Library = made
    return made


class TimesTheCall(Hook):
    """Times the one method of the library."""

    patches = (Patch(MODULE, "Library.call", Stage.RETRIEVE),)


def answer(thing: Any) -> object:
    try:
        return thing.call("text")
    except TypeError:
        return "refused"


def answers(made: Any) -> list[object]:
    """What the attribute gives of an instance, of the class, of a subclass and its instance."""
    below: Any = type("Below", (made,), {})
    of_class = [answer(made), answer(below)]
    with_instance = []
    for one in (made, below):
        try:
            with_instance.append(one.call(one(), "text"))
        except TypeError:
            with_instance.append("refused")
    return [answer(made()), answer(below()), *of_class, *with_instance]


every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))


@every_kind
@pytest.mark.parametrize("meta", [type, Meta], ids=["plain class", "class of a metaclass"])
@pytest.mark.parametrize("inherited", [False, True], ids=["own", "inherited"])
def test_every_kind_of_attribute_answers_as_it_did_and_is_restored(
    spans: Spans,
    library: Library,
    kind: Callable[[], object],
    meta: type,
    *,
    inherited: bool,
) -> None:
    own = kind()
    made = library_class(library, own, meta=meta)
    if inherited:
        made = library_class(library, None, meta=meta, of=made)
        del made.call
    before = answers(made)

    hook = AppliedHook("library", TimesTheCall, spans.recorder)
    during = answers(made)
    in_place = vars(made).get("call")
    is_timed = bool(spans.all)
    hook.restore()

    assert during == before
    assert is_of_wrapt(in_place) is is_of_wrapt(own)
    assert answers(made) == before
    assert vars(made).get("call") is (None if inherited else own)
    assert is_timed is not isinstance(own, property)  # which has the data of an instance


MOCKS: dict[str, Callable[[], Any]] = {
    "mock": lambda: mock.Mock(return_value=("a mock",)),
    "magic mock": lambda: mock.MagicMock(return_value=("a mock",)),
    "mock like a function": lambda: mock.MagicMock(spec=method, return_value=("a mock",)),
    "mock like one in C": lambda: mock.create_autospec(len, return_value=("a mock",)),
    "mock to be awaited": lambda: mock.AsyncMock(return_value=("a mock",)),
}


def wrapping(_: object, original: Timed) -> Timed:
    """Build what stands in a function's place, as hooks do."""

    @functools.wraps(original)
    def build(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    return build


class Replaces(Hook):
    """Replaces the one method of the library."""

    patches = (Replacement(MODULE, "Library.call", wrapping), Replacement(MODULE, "ask", wrapping))


class Times(Hook):
    """Times it, and the function beside it."""

    patches = (*TimesTheCall.patches, Patch(MODULE, "ask", Stage.RETRIEVE))


@pytest.mark.parametrize("make", MOCKS.values(), ids=list(MOCKS))
@pytest.mark.parametrize("kind", [Times, Replaces])
@pytest.mark.parametrize("inherited", [False, True], ids=["own", "inherited"])
def test_a_mock_of_the_programs_stays_one(
    spans: Spans,
    library: Library,
    make: Callable[[], Any],
    kind: type[Hook],
    *,
    inherited: bool,
) -> None:
    given = make()
    made = library_class(library, given)
    made = library_class(library, given, of=made) if inherited else made
    if inherited:
        del made.call
    library.ask = given

    hook = AppliedHook("library", kind, spans.recorder)
    called = [outcome(made().call("text")), outcome(library.ask("text"))]
    status = hook.status
    hook.restore()

    assert status.reason is None
    assert called == [("a mock",)] * 2
    assert given.call_args_list == [mock.call("text")] * 2
    assert made.call is given
    assert library.ask is given


def wrapped_by_wrapt(made: Any) -> Callable[[], None]:
    """Patch as OpenTelemetry's instrumentations do, and take back as they do."""
    wrapt.wrap_function_wrapper(made, "call", passing)

    def unwrap() -> None:
        if isinstance(made.call, wrapt.ObjectProxy):
            made.call = made.call.__wrapped__

    return unwrap


def wrapped_by_hand(made: Any) -> Callable[[], None]:
    before = made.call

    @functools.wraps(before)
    def call(*args: Any, **kwargs: Any) -> Any:
        return before(*args, **kwargs)

    made.call = call
    return lambda: setattr(made, "call", before)


@pytest.mark.parametrize("wrap", [wrapped_by_wrapt, wrapped_by_hand], ids=["wrapt", "by hand"])
@pytest.mark.parametrize("ours_at", [0, 1, 2])
@pytest.mark.parametrize("ours_ends_at", [0, 1, 2])
def test_the_order_of_patching_and_of_restoring_never_matters(
    spans: Spans,
    library: Library,
    wrap: Callable[[Any], Callable[[], None]],
    ours_at: int,
    ours_ends_at: int,
) -> None:
    made = library_class(library, method)
    undo: list[Callable[[], None]] = []
    ours: list[Callable[[], None]] = []
    for step in range(3):
        if step == ours_at:
            ours.append(AppliedHook("library", TimesTheCall, spans.recorder).restore)
        else:
            undo.append(wrap(made))
        assert made().call("text") == ("Library", "text")
    assert len(spans.all) == 3 - ours_at

    undo.reverse()
    undo[ours_ends_at:ours_ends_at] = ours
    for step, restore in enumerate(undo):
        restore()
        assert made().call("text") == ("Library", "text")
        if step >= ours_ends_at:
            count = len(spans.all)
            made().call("text")
            assert len(spans.all) == count


def test_a_method_that_a_base_is_given_later_is_the_one_that_is_called(
    spans: Spans, library: Library
) -> None:
    base = library_class(library, method)
    library.Library = below = type("Library", (base,), {"__module__": MODULE})

    hook = AppliedHook("library", TimesTheCall, spans.recorder)
    base.call = lambda _, text: ("patched later", text)

    assert below().call("text") == ("patched later", "text")
    assert spans.stages == [Stage.RETRIEVE]
    hook.restore()
    assert below().call("text") == ("patched later", "text")


def test_a_call_that_only_a_metaclass_has_is_none_of_the_class(
    spans: Spans, library: Library
) -> None:
    library.Library = Meta("Library", (), {"__module__": MODULE})

    hook = AppliedHook("library", TimesTheCall, spans.recorder)

    assert hook.status.state is HookState.REFUSED
    assert library.Library.call("text") == ("of the metaclass", "text")


class TimesTheFunction(Hook):
    """Times the one function of the library."""

    patches = (Patch(MODULE, "ask", Stage.RETRIEVE),)


def test_a_function_that_a_module_makes_when_asked_is_timed_and_forgotten(
    spans: Spans, library: Library
) -> None:
    library.__getattr__ = {"ask": free}.__getitem__

    hook = AppliedHook("library", TimesTheFunction, spans.recorder)
    assert library.ask("text") == ("unbound", "text")
    hook.restore()

    assert spans.stages == [Stage.RETRIEVE]
    assert library.ask is free
    assert "ask" not in vars(library)


@pytest.mark.parametrize("function", [len, Answers()], ids=["in C", "an object"])
def test_what_does_not_bind_does_not_bind_where_it_is_copied_to(
    spans: Spans, library: Library, function: Callable[[str], object]
) -> None:
    library.ask = function
    hook = AppliedHook("library", TimesTheFunction, spans.recorder)

    class Program:
        ask = library.ask

    assert Program().ask("text") == function("text")
    assert spans.stages == [Stage.RETRIEVE]
    hook.restore()
    assert Program().ask("text") == function("text")


def test_a_wrapped_function_of_a_module_stays_one(spans: Spans, library: Library) -> None:
    library.ask = own = wrapped(free)

    hook = AppliedHook("library", TimesTheFunction, spans.recorder)
    during = library.ask
    assert during("text") == ("unbound", "text")
    hook.restore()

    assert is_of_wrapt(during)
    assert spans.stages == [Stage.RETRIEVE]
    assert library.ask is own


def test_a_wrapt_that_is_none_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, spans: Spans, library: Library
) -> None:
    monkeypatch.setitem(sys.modules, "wrapt", ModuleType("wrapt"))  # as tools for documents do
    library.ask = free

    hook = AppliedHook("library", TimesTheFunction, spans.recorder)
    library.ask("text")
    hook.restore()

    assert spans.stages == [Stage.RETRIEVE]


every_form = pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))


@every_form
def test_a_wrapped_function_is_timed_in_its_own_form(
    spans: Spans, library: Library, form: Timed
) -> None:
    made = library_class(library, wrapt.FunctionWrapper(form, passing))

    AppliedHook("library", TimesTheCall, spans.recorder)

    assert outcome(made().call("text")) == ("Library", "text")
    assert spans.stages == [Stage.RETRIEVE]
