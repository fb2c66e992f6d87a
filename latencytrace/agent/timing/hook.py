"""The contract of a hook: which calls of one library are timed, and how."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

from latencytrace.agent.timing.recorder import Recorder
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage
from latencytrace.plugins import Plugin

Arguments = Mapping[str, object]  # of the timed call, by parameter name, defaults included
HookAttributes = dict[str, AttributeValue]
Timed = Callable[..., Any]  # a function of a library, of any signature
UNDO: Final = "_latencytrace_undo"  # on what a `Replacement` builds: puts back what it patches


class Asked(Protocol):
    """Settings that hooks read."""

    @property
    def torch_modules(self) -> tuple[str, ...]: ...

    @property
    def torch_copies(self) -> bool: ...

    @property
    def log_correlation(self) -> bool: ...


class HookOptions(NamedTuple):
    """Options of hooks."""

    torch_modules: tuple[str, ...] = ()  # `Class` or `package.module:Class`
    torch_copies: bool = False  # time tensors' own copies between host and device
    log_correlation: bool = False  # put trace and span ids on log records

    @classmethod
    def of(cls, asked: Asked) -> Self:
        """Return those of the settings."""
        return cls(
            torch_modules=asked.torch_modules,
            torch_copies=asked.torch_copies,
            log_correlation=asked.log_correlation,
        )


class Patch(NamedTuple):
    """One call of a library that becomes a span.

    Args:
        module: Where the target lies; the patch waits until the program imports it.
        target: `function` or `Class.method`.
        stage: What the call is part of.
        describe: Attributes from the arguments, before the call.
        describe_result: Attributes from the result, after it.
        interleaved: Inside a stream the call is noted as an interval of the stream's
            span, since it comes once a token; elsewhere it is a span.
        subclasses: The method is patched in every subclass, too, that has one of its own.
        later: Whether an object that is made later has it; the class itself need not have it.
        part_of: Inside a span of these stages, as of its own, the call is the inner half.
        name: What the span is called; None: as the target's last part, or as its stage where
            that says nothing.
        optional: Not every supported version of the library has the target.
        within: Only calls inside of another span are timed, as the load that a request waits for.
    """

    module: str
    target: str
    stage: Stage
    describe: Callable[[Arguments], HookAttributes] | None = None
    describe_result: Callable[[Any], HookAttributes] | None = None
    interleaved: bool = False
    subclasses: bool = False
    part_of: tuple[Stage, ...] = ()
    name: str | None = None
    optional: bool = False
    within: bool = False
    later: bool = False


class Replacement(NamedTuple):
    """One call of a library whose timing needs more than a span around it.

    What has a name of `Patch` means the same here.

    Args:
        build: From the recorder and the original to the function in its place.
        kept_as: Name of the original beside it, where another library looks for it.
        bare: No other frame of ours stands around its calls, for compilers and tracebacks look
            at them: it defends itself.
    """

    module: str
    target: str
    build: Callable[[Recorder, Timed], Timed]
    optional: bool = False
    subclasses: bool = False
    kept_as: str | None = None
    later: bool = False
    bare: bool = False


class Hook:
    """Timed calls of one library: a table, applied when the program imports it."""

    # `distribution >= version`, any one of them; `since` where older ones have nothing to time.
    requires: ClassVar[tuple[str, ...]] = ()
    patches: ClassVar[tuple[Patch | Replacement, ...]] = ()

    @classmethod
    def table(cls, options: HookOptions) -> tuple[Patch | Replacement, ...]:  # noqa: ARG003 - a hook may read it
        """Return what is patched; a hook overrides it where settings have a say."""
        return cls.patches


class ListedHook(NamedTuple):
    """A hook of which is known what it waits for, so that it need not be loaded before that."""

    plugin: Plugin
    requires: tuple[str, ...]
    modules: tuple[str, ...]  # that it patches, in the order of its table

    def load(self) -> type[Hook]:
        """Import it.

        Raises:
            TypeError: The entry point is not a hook.
        """
        loaded = self.plugin.load()
        if not (isinstance(loaded, type) and issubclass(loaded, Hook)):
            raise TypeError(f"{self.plugin.value} is no hook")
        return loaded
