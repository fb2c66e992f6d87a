"""infinity: the queue of its texts, and batches that go through three threads."""

from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Batch, Ticket, new_ticket
from latencytrace.model.stage import Stage

_QUEUE = "infinity_emb.inference.queue"
_HANDLER = "infinity_emb.inference.batch_handler"

_STAGES = {"ReRankSingle": Stage.RERANK, "PredictSingle": Stage.FORWARD}  # all others embed

_QUEUES = ("_input_q", "_feature_queue", "_postprocess_queue", "_output_q")
_PARTS = (None, Stage.TOKENIZE, None, Stage.POSTPROCESS)  # that end where something is put there

# Of what waits, by its future, for it takes no attributes: a request's items share a ticket.
_tickets: WeakKeyDictionary[Any, Ticket] = WeakKeyDictionary()


def take_ticket(recorder: Recorder, original: Timed) -> Timed:
    """Take a ticket for the texts that a request puts into the queue."""

    @wraps(original)
    def extend(self: object, items: Any) -> Any:  # noqa: ANN401
        with guarded("joining a queue", recorder.on_fault):
            ticket = new_ticket(recorder, None)
            for one in items:
                _tickets[one.item.future] = ticket
        return original(self, items)

    return extend


class Pipeline:
    """The batches in a worker's three threads, each seen as it goes from one to the next."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._batches: dict[int, tuple[Batch, int]] = {}  # with the time of their last hand-over

    def begun(self, items: Any) -> None:  # noqa: ANN401 - a list of what waited
        """The first thread begins a batch."""
        tickets = [_tickets.pop(item.future, None) for item in items]
        if not any(tickets):  # they came before the hook did
            return
        stage = _STAGES.get(type(items[0].content).__name__, Stage.EMBED)
        batch = Batch(lambda: self.recorder, tickets, stage, {})
        batch.begin()
        batch.activate()
        self._batches[id(items)] = (batch, monotonic_ns())

    def taken(self, items: Any) -> None:  # noqa: ANN401
        """The next thread goes on with it."""
        batch, since_ns = self._batches.get(id(items), (None, 0))
        if batch is not None:
            batch.note_part(Stage.QUEUE, since_ns)
            batch.activate()
            self._batches[id(items)] = (batch, monotonic_ns())

    def handed_on(self, items: Any, part: Stage | None, *, last: bool) -> None:  # noqa: ANN401
        """A thread has done its part, of this stage or of the batch's own."""
        batch, since_ns = self._batches.pop(id(items), (None, 0))
        if batch is None:
            return
        if part is not None:
            batch.note_part(part, since_ns)
        batch.deactivate()
        if last:
            batch.end()
        else:
            self._batches[id(items)] = (batch, monotonic_ns())


class SeenQueue:
    """One of the four queues of a worker: before, between and behind its threads."""

    def __init__(self, pipeline: Pipeline, queue: Any, position: int) -> None:  # noqa: ANN401
        self._pipeline = pipeline
        self._queue = queue
        self._position = position
        self._put: object = None  # what is put again and again while the queue is full

    def get(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """A batch, alone or with what the thread before made of it."""
        got = self._queue.get(*args, **kwargs)
        with guarded("taking a batch on", self._pipeline.recorder.on_fault):
            if self._position == 0:
                self._pipeline.begun(got)
            else:
                self._pipeline.taken(got[1])
        return got

    def put(self, item: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Hand a batch on."""
        with guarded("handing a batch on", self._pipeline.recorder.on_fault):
            if item[1] is not self._put:
                self._put = item[1]
                last = self._position == len(_PARTS) - 1
                self._pipeline.handed_on(item[1], _PARTS[self._position], last=last)
        self._queue.put(item, *args, **kwargs)
        self._put = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._queue, name)


def see_worker(recorder: Recorder, original: Timed) -> Timed:
    """See the batches of a worker."""

    @wraps(original)
    def spawn(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        with guarded("watching a worker", recorder.on_fault):
            pipeline = Pipeline(recorder)
            for position, name in enumerate(_QUEUES):
                setattr(self, name, SeenQueue(pipeline, getattr(self, name), position))
        return original(self, *args, **kwargs)

    return spawn


class InfinityHook(Hook):
    """Times the wait for a batch and its way through tokenizing, the model and the rest."""

    requires = ("infinity-emb >= 0.0.70",)
    patches = (
        Replacement(_QUEUE, "CustomFIFOQueue.extend", take_ticket),
        Replacement(_HANDLER, "ModelWorker.spawn", see_worker),
    )
