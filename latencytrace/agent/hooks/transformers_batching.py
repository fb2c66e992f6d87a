"""Continuous batching with `transformers`: each member's queue, prefill and decode.

One thread generates for all, so what it does to a member is written into the member's own
trace, where it was added: which batches it ran in is not recorded.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from opentelemetry.context import Context, attach, create_key, get_current, get_value, set_value
from opentelemetry.trace import get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import call_in, leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import (
    Arguments,
    Hook,
    HookAttributes,
    Patch,
    Replacement,
    Timed,
)
from latencytrace.agent.timing.recorder import Recorder, Timing
from latencytrace.agent.toolkit.calls import after, before, outside_requests
from latencytrace.agent.toolkit.models.calls import (
    Phases,
    generation_attributes,
    model_attributes,
)
from latencytrace.agent.toolkit.streaming import MadeTokens
from latencytrace.model import semconv
from latencytrace.model.stage import Stage

_API = "transformers.generation.continuous_batching.continuous_api"
_REQUESTS = "transformers.generation.continuous_batching.requests"
_SCHEDULER = "transformers.generation.continuous_batching.scheduler"
_ADDED = create_key("latencytrace.batch_member")
_MEMBER = "_latencytrace_member"  # on the state of a request
_PENDING, _FINISHED = 0, 3  # of `RequestStatus`
_CHILD = "__child#"  # in the id of one more sequence of the same prompt, which begins to wait


class Member:
    """One request of a batch: it waits, is prefilled to its first token, decoded to its last."""

    def __init__(
        self,
        recorder: Recorder,
        model: Any,
        prompt_tokens: int,
        depth: int | None = None,
    ) -> None:
        self._recorder = recorder
        self._context = get_current()
        self._tokens = MadeTokens()
        self._described: HookAttributes = {
            **generation_attributes("transformers"),
            **model_attributes(model),
            semconv.GEN_AI_USAGE_INPUT_TOKENS: prompt_tokens,
        }
        self._phases: Phases | None = None
        self._whole: Timing | None = None
        self._preemptions = 0
        waiting: HookAttributes = {} if depth is None else {semconv.QUEUE_DEPTH: depth}
        self._wait: Timing | None = recorder.start("queue", Stage.QUEUE, waiting)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A copy of a request's state, or one sent to another process, is no member."""
        return type(None), ()

    def scheduled(self) -> None:
        """Note that the wait is over; being put back later is part of the decoding."""
        wait, self._wait = self._wait, None
        if wait is None:
            return
        now_ns = monotonic_ns()
        wait.end(now_ns)
        self._whole = self._recorder.start(
            "generate", Stage.PREPROCESS, self._described, context=self._context, started_ns=now_ns
        )
        within = self._whole.context()
        self._phases = Phases(self._recorder, self._tokens, within, now_ns)

    def waits(self) -> None:
        """Note that it waits: once it was scheduled, it had to make room."""
        if self._whole is not None:
            self._preemptions += 1

    def token(self) -> None:
        if self._whole is not None and self._phases is not None:
            self._recorder.steps.begin(self._whole.span)
            self._phases.token()

    def end(self, attributes: HookAttributes | None = None) -> None:
        """End what is under way; once."""
        wait, self._wait = self._wait, None
        phases, self._phases = self._phases, None
        if wait is not None:
            wait.end()
        if self._whole is not None and phases is not None:
            preempted = {semconv.PREEMPTIONS: self._preemptions}
            self._whole.note({**phases.end(), **preempted, **(attributes or {})})
            self._whole.end()


def _member_of(state: object) -> Member | None:
    member = vars(state).get(_MEMBER)
    return member if isinstance(member, Member) else None


def _waiting(manager: Any) -> int | None:
    """Count the requests that wait for the prefill; None: unknown."""
    queue = getattr(manager, "input_queue", None)
    processor = getattr(manager, "batch_processor", None)
    scheduler = getattr(processor, "scheduler", None)
    waiting = getattr(scheduler, "waiting_requests", ())  # of a batch that has not begun: none
    return None if queue is None else queue.qsize() + len(waiting)


def time_added(recorder: Recorder, original: Timed) -> Timed:
    @wraps(original)
    def add_request(self: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        member = None
        with guarded("adding to a batch", recorder.on_fault):
            if get_current_span().is_recording() and not recorder.suppressed():
                model = getattr(self, "model", None)
                member = Member(recorder, model, len(input_ids), _waiting(self))
        token = attach(set_value(_ADDED, member))
        added = None
        try:
            added = original(self, input_ids, *args, **kwargs)
            return added
        finally:
            leave(token)
            if added is None and member is not None:  # refused
                member.end()

    return add_request


def _remember_member(_: Recorder, arguments: Arguments, __: object) -> None:
    """Tie what was added to its state, which the batch's thread works with."""
    setattr(arguments["self"], _MEMBER, get_value(_ADDED))


def _keep_member(_: Recorder, arguments: Arguments, state: object) -> None:
    """Tie it to the state that takes the place of one that had to make room, too."""
    setattr(state, _MEMBER, _member_of(arguments["self"]))


def time_status(recorder: Recorder, original: Any) -> Any:
    """Time by the changes of a state's status: there its stages begin and end."""

    def set_status(state: Any, value: Any) -> None:
        original.fset(state, value)
        member = _member_of(state)
        if member is not None and value > _PENDING:
            with guarded("timing a member", recorder.on_fault):
                member.scheduled()
                if value >= _FINISHED:
                    member.end(_outcome(state, failed=value > _FINISHED))

    return property(original.fget, set_status, original.fdel, original.__doc__)


def _outcome(state: Any, *, failed: bool) -> HookAttributes:
    """Return why it ended."""
    if failed:
        return {semconv.ERROR_TYPE: "GenerationFailed"}
    limit = state.max_new_tokens
    reason = "length" if limit is not None and len(state.generated_tokens) >= limit else "stop"
    return {semconv.GEN_AI_RESPONSE_FINISH_REASONS: (reason,)}


def _note_token(_: Recorder, arguments: Arguments) -> None:
    member = _member_of(arguments["self"])
    if member is not None:
        member.token()


def _count_wait(_: Recorder, arguments: Arguments) -> None:
    """Count how often a member is put back to wait."""
    state: Any = arguments["state"]
    member = _member_of(state)
    if member is not None and _CHILD not in str(state.request_id):
        member.waits()


def _end_cancelled(_: Recorder, __: Arguments, states: Any) -> None:
    """End what was cancelled, which leaves the batch without a change of its status."""
    for member in filter(None, map(_member_of, states or ())):
        member.end({semconv.CANCELLED: True})


class TransformersBatchingHook(Hook):
    """Times the members of continuous batches, for `transformers serve` and in programs."""

    requires = ("transformers since 5.0",)
    patches = (
        Replacement(_API, "ContinuousBatchingManager.add_request", time_added),
        Replacement(_API, "ContinuousBatchingManager._run_generation_loop", outside_requests),
        Replacement(
            _REQUESTS, "RequestState.__post_init__", after("noting a member", _remember_member)
        ),
        Replacement(_REQUESTS, "RequestState.status", time_status),
        Replacement(
            _REQUESTS,
            "RequestState.update_and_check_completion",
            before("noting a token", _note_token),
        ),
        Replacement(
            _REQUESTS,
            "RequestState.create_equivalent_initial_request",
            after("noting a member", _keep_member),
            optional=True,
        ),
        Replacement(
            _SCHEDULER,
            "Scheduler.clear_cancelled_requests",
            after("ending members", _end_cancelled),
        ),
        Replacement(
            _SCHEDULER,
            "Scheduler.add_waiting_request",
            before("noting a wait", _count_wait),
            optional=True,
        ),
    )


_UTILS = "transformers.cli.serving.utils"
_MANAGER = "transformers.cli.serving.model_manager"


def carry_into_queue(recorder: Recorder, original: Timed) -> Timed:
    """Let the inference thread work for the request that asked, and time its wait until then."""

    def dequeued(waiting: Timing | None, context: Context, work: Callable[..., Any]) -> Timed:
        def run(*args: Any, **kwargs: Any) -> Any:
            if waiting is not None:
                with guarded("ending a wait", recorder.on_fault):
                    waiting.end()
            return call_in(context, work, *args, **kwargs)

        return run

    @wraps(original)
    def submit(self: object, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        waiting = None
        with guarded("starting a wait", recorder.on_fault):
            if get_current_span().is_recording() and not recorder.suppressed():
                waiting = recorder.start("queue", Stage.QUEUE)
        return original(self, dequeued(waiting, get_current(), fn), *args, **kwargs)

    return submit


class TransformersServeHook(Hook):
    """Times what only the server knows; what it serves with is timed by the other hooks."""

    requires = ("transformers since 5.0",)
    patches = (
        Replacement(_UTILS, "InferenceThread._run", outside_requests),
        Replacement(_UTILS, "InferenceThread.submit", carry_into_queue),
        Replacement(_UTILS, "InferenceThread.async_submit", carry_into_queue),
        Patch(_UTILS, "DirectStreamer.put", Stage.DETOKENIZE, interleaved=True),
        Patch(_MANAGER, "ModelManager._load_processor", Stage.LOAD, within=True),
        Patch(_MANAGER, "ModelManager._load_model", Stage.LOAD, within=True),
    )
