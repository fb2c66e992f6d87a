"""infinity: the queue of its texts, and batches that go through three threads."""

from typing import Any

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Arguments, Hook, Replacement
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.batching import Batch, Tickets, batch_of
from latencytrace.agent.toolkit.calls import before
from latencytrace.model.stage import Stage

_QUEUE = "infinity_emb.inference.queue"
_HANDLER = "infinity_emb.inference.batch_handler"

_STAGES = {"ReRankSingle": Stage.RERANK, "PredictSingle": Stage.FORWARD}  # all others embed

_QUEUES = ("_input_q", "_feature_queue", "_postprocess_queue", "_output_q")
_PARTS = (None, Stage.TOKENIZE, None, Stage.POSTPROCESS)  # that end where something is put there

_tickets = Tickets()  # of the items that wait; those of one request share a ticket


def _take_ticket(recorder: Recorder, arguments: Arguments) -> None:
    """Take a ticket for the texts that a request puts into the queue."""
    items: Any = arguments["items"]
    _tickets.take(recorder, *(one.item.future for one in items))


class Pipeline:
    """The batches in a worker's three threads, each seen as it goes from one to the next."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._batches: dict[int, tuple[Batch, int]] = {}  # with when a thread last passed them on

    def begun(self, items: Any) -> None:
        """The first thread begins a batch."""
        stage = _STAGES.get(type(items[0].content).__name__, Stage.EMBED)
        batch = batch_of(self.recorder, _tickets.of(item.future for item in items), stage)
        if batch is None:
            return
        batch.begin()
        batch.activate()
        self._batches[id(items)] = (batch, monotonic_ns())

    def taken(self, items: Any) -> None:
        """The next thread goes on with it."""
        batch, since_ns = self._batches.get(id(items), (None, 0))
        if batch is not None:
            batch.note_part(Stage.QUEUE, since_ns)
            batch.activate()
            self._batches[id(items)] = (batch, monotonic_ns())

    def passed_on(self, items: Any, part: Stage | None, *, last: bool) -> None:
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

    def __init__(self, pipeline: Pipeline, queue: Any, position: int) -> None:
        self._pipeline = pipeline
        self._queue = queue
        self._position = position
        self._put: object = None  # what is put again and again while the queue is full

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """A batch, alone or with what the thread before made of it."""
        got = self._queue.get(*args, **kwargs)
        with guarded("taking a batch on", self._pipeline.recorder.on_fault):
            if self._position == 0:
                self._pipeline.begun(got)
            else:
                self._pipeline.taken(got[1])
        return got

    def put(self, item: Any, *args: Any, **kwargs: Any) -> Any:
        """Pass a batch on."""
        with guarded("passing a batch on", self._pipeline.recorder.on_fault):
            if item[1] is not self._put:
                self._put = item[1]
                last = self._position == len(_PARTS) - 1
                self._pipeline.passed_on(item[1], _PARTS[self._position], last=last)
        self._queue.put(item, *args, **kwargs)
        self._put = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def _see_worker(recorder: Recorder, arguments: Arguments) -> None:
    """Time the batches of a worker."""
    worker, pipeline = arguments["self"], Pipeline(recorder)
    for position, name in enumerate(_QUEUES):
        setattr(worker, name, SeenQueue(pipeline, getattr(worker, name), position))


class InfinityHook(Hook):
    """Times the wait for a batch and its way through tokenizing, the model and the rest."""

    requires = ("infinity-emb >= 0.0.70",)
    patches = (
        Replacement(_QUEUE, "CustomFIFOQueue.extend", before("joining a queue", _take_ticket)),
        Replacement(_HANDLER, "ModelWorker.spawn", before("watching a worker", _see_worker)),
    )
