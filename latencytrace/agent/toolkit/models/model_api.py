"""Client libraries of models' APIs: which calls ask a model, and what is noted of each."""

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry.trace import get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.timing.hook import Arguments, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.calls import after
from latencytrace.agent.toolkit.models.answer_form import AnswerForm, Paths, found
from latencytrace.agent.toolkit.models.remote_model import ModelCall, timed_model_calls
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelApi:
    """A client library; of a question only its model and how many inputs it has are noted.

    Args:
        provider: The value of `gen_ai.provider.name`, or how it is found.
        url: Where the server's address lies in the arguments: `self._client.base_url`.
        model: Where the name of the model stands; the first that is there counts.
        inputs: Arguments that may hold several inputs.
        below: The library's function beneath a call, which others may have wrapped.
        is_one: Says whether a call asks a model; None: all do.
    """

    provider: str | Callable[[Arguments], str]
    form: AnswerForm
    url: str = "self._client.base_url"
    model: Paths = ("model",)
    inputs: tuple[str, ...] = ("input",)
    below: str | None = None
    is_one: Callable[[Arguments], bool] | None = None

    def calls(
        self,
        module: str,
        owners: str,
        methods: str,
        operation: str,
        stage: Stage = Stage.REMOTE_MODEL,
        *,
        optional: Iterable[str] = (),
    ) -> tuple[Replacement, ...]:
        """Patch methods of its clients.

        Args:
            owners: Classes; those whose name begins with `Async` are awaited. Empty: functions.
            operation: The value of `gen_ai.operation.name`; empty: none is defined.
            optional: Those of the module and the methods that not every supported version has.
        """
        missing = frozenset(optional)
        return tuple(
            Replacement(
                module,
                f"{owner}.{method}" if owner else method,
                self.timed(stage, operation, is_async=owner.startswith("Async")),
                optional=not missing.isdisjoint((module, method)),
            )
            for owner in owners.split() or ("",)
            for method in methods.split()
        )

    def timed(
        self, stage: Stage, operation: str, *, is_async: bool = False
    ) -> Callable[[Recorder, Timed], Timed]:
        def begin(recorder: Recorder, arguments: Arguments) -> ModelCall | None:
            if recorder.inside(stage) or (self.is_one and not self.is_one(arguments)):
                return None
            return ModelCall(
                recorder, stage, operation, self.describe(arguments, stage), self.form
            )

        below = self.below
        return timed_model_calls(
            begin,
            is_async=is_async,
            below=None if below is None else lambda arguments: first_at(arguments, (below,)),
        )

    def describe(self, arguments: Arguments, stage: Stage) -> HookAttributes:
        """Note the provider and the model, and the number of inputs if several."""
        provider = self.provider if isinstance(self.provider, str) else self.provider(arguments)
        noted: HookAttributes = {semconv.GEN_AI_PROVIDER_NAME: provider}
        model = first_at(arguments, self.model)
        if isinstance(model, str) and "://" not in model:
            noted[semconv.GEN_AI_REQUEST_MODEL] = model
        if stage is not Stage.REMOTE_MODEL:  # whose inputs are one conversation
            inputs = first_at(arguments, self.inputs)
            if isinstance(inputs, Sized) and not isinstance(inputs, str):
                noted[semconv.BATCH_SIZE] = len(inputs)
        url = first_at(arguments, (self.url,))
        parts = urlsplit(str(url)) if url else None
        if parts is not None and parts.hostname:
            noted[semconv.SERVER_ADDRESS] = parts.hostname
            noted[semconv.SERVER_PORT] = parts.port or _PORTS.get(parts.scheme, 0)
        return noted


def first_at(arguments: Arguments, paths: Paths) -> Any:
    """Return the first argument, or part of one, that is there; None: none is."""
    for path in paths:
        name, _, rest = path.partition(".")
        value = arguments.get(name)
        if value is not None:
            value = next(found(value, rest), None) if rest else value
        if value is not None:
            return value
    return None


def announced_waits(
    seconds_of: Callable[[Any], float | None],
) -> Callable[[Recorder, Timed], Timed]:
    """Build what notes a wait that follows a function which says how long it will be.

    Args:
        seconds_of: What the function returned means; None: no wait.
    """

    def note(recorder: Recorder, _: Arguments, result: object) -> None:
        seconds = seconds_of(result)
        if seconds and get_current_span().is_recording():
            now_ns = monotonic_ns()
            wait = recorder.start("back_off", Stage.RETRY, started_ns=now_ns)
            wait.end(now_ns + int(seconds * 1e9))

    return after("noting a wait", note)
