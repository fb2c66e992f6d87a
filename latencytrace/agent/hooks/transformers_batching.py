"""Continuous batching with `transformers`: each member's queue, prefill and decode.

One thread generates for all, so what it does to a member is written into the member's own
trace, where it was added: in whose batches it ran is not recorded.
"""

from functools import wraps
from pathlib import PurePath
from typing import Any

from opentelemetry.context import Context, attach, create_key, get_current, get_value, set_value
from opentelemetry.trace import get_current_span

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.context import call_in, leave
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookAttributes, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder, Timing
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
        model: Any,  # noqa: ANN401
        prompt_tokens: int,
        depth: int | None = None,
    ) -> None:
        self._recorder = recorder
        self._context = get_current()
        self._tokens = MadeTokens()
        self._described: HookAttributes = {
            semconv.GEN_AI_OPERATION_NAME: "text_completion",
            semconv.GEN_AI_PROVIDER_NAME: "transformers",
            semconv.GEN_AI_USAGE_INPUT_TOKENS: prompt_tokens,
        }
        name = getattr(model, "name_or_path", "")
        if name:
            self._described[semconv.GEN_AI_REQUEST_MODEL] = PurePath(str(name)).name
        self._made = 0
        self._whole: Timing | None = None
        self._preemptions = 0
        told: HookAttributes = {} if depth is None else {semconv.QUEUE_DEPTH: depth}
        self._phase: Timing | None = recorder.start("queue", Stage.QUEUE, told)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Copied or sent to another process, a request's state is nobody's member."""
        return type(None), ()

    def scheduled(self) -> None:
        """Note that the wait is over; being put back later is part of the decoding."""
        if self._whole is None and self._phase is not None:
            now_ns = monotonic_ns()
            self._phase.end(now_ns)
            self._whole = self._recorder.start(
                "generate",
                Stage.PREPROCESS,
                self._described,
                context=self._context,
                started_ns=now_ns,
            )
            self._phase = self._start("prefill", Stage.PREFILL, now_ns)

    def waits(self) -> None:
        """Note that it waits: once it was scheduled, it had to make room."""
        if self._whole is not None:
            self._preemptions += 1

    def token(self) -> None:
        """Note one more token: the first ends the prefill."""
        if self._whole is not None:
            self._recorder.steps.begin(self._whole.span)
        self._made += 1
        if self._made > 1:
            self._tokens.add()
        elif self._phase is not None:
            now_ns = monotonic_ns()
            self._tokens.add(now_ns)
            self._phase.end(now_ns)
            self._phase = self._start("decode", Stage.DECODE, now_ns)

    def end(self, attributes: HookAttributes | None = None) -> None:
        """End what is under way; once."""
        phase, self._phase = self._phase, None
        if phase is None:
            return
        now_ns = monotonic_ns()
        made: HookAttributes = {semconv.GEN_AI_USAGE_OUTPUT_TOKENS: self._made}
        if self._made:
            times = self._tokens.described(phase.started_ns)
            phase.note({**made, **times, semconv.BATCH_SIZE: 1})
        phase.end(now_ns)
        if self._whole is not None:
            preempted = {semconv.PREEMPTIONS: self._preemptions}
            self._whole.note({**made, **preempted, **(attributes or {})})
            self._whole.end(now_ns)

    def _start(self, name: str, stage: Stage, started_ns: int) -> Timing:
        within = self._whole.context() if self._whole is not None else self._context
        return self._recorder.start(name, stage, context=within, started_ns=started_ns)


def _member_of(state: object) -> Member | None:
    member = vars(state).get(_MEMBER)
    return member if isinstance(member, Member) else None


def _waiting(manager: Any) -> int | None:  # noqa: ANN401 - a ContinuousBatchingManager
    """How many wait for their prefill; None: it cannot be told."""
    queue = getattr(manager, "input_queue", None)
    processor = getattr(manager, "batch_processor", None)
    scheduler = getattr(processor, "scheduler", None)
    waiting = getattr(scheduler, "waiting_requests", ())  # of a batch that has not begun: none
    return None if queue is None else queue.qsize() + len(waiting)


def time_added(recorder: Recorder, original: Timed) -> Timed:
    """Time what is added, for the request that adds it."""

    @wraps(original)
    def add_request(self: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
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


def remember_member(_recorder: Recorder, original: Timed) -> Timed:
    """Tie what was added to its state, which the batch's thread works with."""

    @wraps(original)
    def __post_init__(self: object) -> None:  # noqa: N807
        original(self)
        setattr(self, _MEMBER, get_value(_ADDED))

    return __post_init__


def keep_member(_recorder: Recorder, original: Timed) -> Timed:
    """Tie it to the state that takes the place of one that had to make room, too."""

    @wraps(original)
    def create_equivalent_initial_request(self: object) -> Any:  # noqa: ANN401
        state = original(self)
        setattr(state, _MEMBER, _member_of(self))
        return state

    return create_equivalent_initial_request


def time_status(recorder: Recorder, original: Any) -> Any:  # noqa: ANN401 - one property for another
    """Time by the changes of a state's status: there its stages begin and end."""

    def set_status(state: Any, value: Any) -> None:  # noqa: ANN401
        original.fset(state, value)
        member = _member_of(state)
        if member is not None and value > _PENDING:
            with guarded("timing a member", recorder.on_fault):
                member.scheduled()
                if value >= _FINISHED:
                    member.end(_outcome(state, failed=value > _FINISHED))

    return property(original.fget, set_status, original.fdel, original.__doc__)


def _outcome(state: Any, *, failed: bool) -> HookAttributes:  # noqa: ANN401
    """Why it ended."""
    if failed:
        return {semconv.ERROR_TYPE: "GenerationFailed"}
    limit = state.max_new_tokens
    reason = "length" if limit is not None and len(state.generated_tokens) >= limit else "stop"
    return {semconv.GEN_AI_RESPONSE_FINISH_REASONS: (reason,)}


def time_token(recorder: Recorder, original: Timed) -> Timed:
    """Count each token."""

    @wraps(original)
    def update_and_check_completion(self: object, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        member = _member_of(self)
        if member is not None:
            with guarded("noting a token", recorder.on_fault):
                member.token()
        return original(self, *args, **kwargs)

    return update_and_check_completion


def count_waits(recorder: Recorder, original: Timed) -> Timed:
    """Count how often a member is put back to wait."""

    @wraps(original)
    def add_waiting_request(self: object, state: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with guarded("noting a wait", recorder.on_fault):
            member = _member_of(state)
            if member is not None and _CHILD not in str(state.request_id):
                member.waits()
        return original(self, state, *args, **kwargs)

    return add_waiting_request


def end_cancelled(recorder: Recorder, original: Timed) -> Timed:
    """End what was cancelled, which leaves the batch without a change of its status."""

    @wraps(original)
    def clear_cancelled_requests(self: object) -> Any:  # noqa: ANN401
        states = original(self)
        with guarded("ending members", recorder.on_fault):
            for member in filter(None, map(_member_of, states or ())):
                member.end({semconv.CANCELLED: True})
        return states

    return clear_cancelled_requests


def belong_to_no_request(_recorder: Recorder, original: Timed) -> Timed:
    """Keep the thread that serves all requests from belonging to the first, which starts it."""

    @wraps(original)
    def _run_generation_loop(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return call_in(Context(), original, *args, **kwargs)

    return _run_generation_loop


class TransformersBatchingHook(Hook):
    """Times the members of continuous batches, for `transformers serve` and in programs."""

    requires = ("transformers >= 5.0",)
    patches = (
        Replacement(_API, "ContinuousBatchingManager.add_request", time_added),
        Replacement(_API, "ContinuousBatchingManager._run_generation_loop", belong_to_no_request),
        Replacement(_REQUESTS, "RequestState.__post_init__", remember_member),
        Replacement(_REQUESTS, "RequestState.status", time_status),
        Replacement(_REQUESTS, "RequestState.update_and_check_completion", time_token),
        Replacement(
            _REQUESTS,
            "RequestState.create_equivalent_initial_request",
            keep_member,
            optional=True,
        ),
        Replacement(_SCHEDULER, "Scheduler.clear_cancelled_requests", end_cancelled),
        Replacement(_SCHEDULER, "Scheduler.add_waiting_request", count_waits, optional=True),
    )
