"""A port of the traced program at which a Prometheus reads what was read of GPUs."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from latencytrace.agent.gpu.sampler import SamplerState
from latencytrace.agent.guard import OnFault, guarded, logger
from latencytrace.agent.process.background import background_thread
from latencytrace.agent.process.forks import whole_imports
from latencytrace.model.gpu import GPU_METRICS, GpuDevice, GpuMetric, GpuSample

_PREFIX = "latencytrace_gpu"
_LABELS = ("gpu", "uuid", "name")

Value = tuple[GpuDevice, GpuMetric, str | None, float]  # with the value of the metric's label


def exposition(values: Sequence[Value], state: SamplerState) -> bytes:
    """The text of a `/metrics`.

    Args:
        values: Values of all GPUs, each metric and label once.
    """
    registry = CollectorRegistry()
    registry.register(_Shown([*_metrics(values), *_state_metrics(state)]))
    return generate_latest(registry)


class _Shown(Collector):
    """These metrics."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        yield from self._metrics


def _metrics(values: Sequence[Value]) -> Iterator[Metric]:
    of_metric: dict[GpuMetric, list[Value]] = {}
    for value in values:
        of_metric.setdefault(value[1], []).append(value)
    for metric, held in of_metric.items():
        form = GPU_METRICS[metric]
        labels = (*_LABELS, *([form.label] if form.label else []))
        kind = CounterMetricFamily if form.is_counter else GaugeMetricFamily
        family = kind(f"{_PREFIX}_{form.prometheus}", form.text, labels=labels)
        for device, _, label, read in held:
            more = [str(label or "")] if form.label else []
            family.add_metric([str(device.index), device.uuid, device.name, *more], read)
        yield family


def _state_metrics(state: SamplerState) -> Iterator[Metric]:
    seconds: Mapping[str, tuple[int, str]] = {
        "tick": (state.tick_ns, "What reading all GPUs once took."),
        "interval": (state.interval_ns, "Time between two readings."),
    }
    for name, (length_ns, text) in seconds.items():
        yield GaugeMetricFamily(f"{_PREFIX}_sampler_{name}_seconds", text, value=length_ns / 1e9)
    errors = CounterMetricFamily(
        f"{_PREFIX}_sampler_errors", "Calls of the driver that failed.", labels=("call", "error")
    )
    for (call, error), times in state.errors.items():
        errors.add_metric([call, error], times)
    yield errors


SILENT_NS: Final = 30_000_000_000  # a value that is older is not shown
AGAIN_AFTER_NS: Final = 10_000_000_000  # where another process listens
_PATIENCE_S: Final = 2.0  # with one client, since they are answered one after the other
_NEVER_NS: Final = 1 << 62
_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_Key = tuple[str, GpuMetric, str | None]  # a GPU's UUID, and the value of the metric's label


class GpuPort:
    """Listens from the first sample on: of several processes only the one that reads GPUs does.

    A port that is taken, or a package that is missing, is said once, and harms nothing.

    Args:
        address: A host and a port.
        now_ns: A monotonic clock.
    """

    def __init__(
        self,
        address: tuple[str, int],
        state: Callable[[], SamplerState],
        now_ns: Callable[[], int],
        on_fault: OnFault,
    ) -> None:
        self._address = address
        self._state = state
        self._now_ns = now_ns
        self._on_fault = on_fault
        self._values: dict[_Key, tuple[GpuDevice, float, int]] = {}  # the last, and when
        self._server: _Server | None = None
        self._due_ns = 0  # when it is tried to listen
        self._reported = False  # why it could not be

    @property
    def listens_at(self) -> tuple[str, int] | None:
        """Return its address; None: it does not listen."""
        if self._server is None:
            return None
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def take(self, samples: Sequence[GpuSample]) -> None:
        """Take samples; called on the sampling thread."""
        now_ns = self._now_ns()
        for sample in samples:
            for one in sample.readings:
                key = (sample.device.uuid, one.metric, one.label)
                self._values[key] = (sample.device, one.value, now_ns)
        if self._server is None and now_ns >= self._due_ns:
            self._due_ns = now_ns + AGAIN_AFTER_NS
            self._listen()

    def text(self) -> bytes:
        """Return what a Prometheus reads."""
        with whole_imports.lock:
            from latencytrace.agent.gpu.port import exposition

        latest_ns = self._now_ns() - SILENT_NS
        shown = [
            (device, metric, label, value)
            for (_, metric, label), (device, value, at_ns) in list(self._values.items())
            if at_ns >= latest_ns
        ]
        return exposition(shown, self._state())

    def close(self) -> None:
        """Stop to listen, for good."""
        self._due_ns = _NEVER_NS
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def reset_after_fork(self) -> None:
        """In a forked child: the port is the parent's; listen anew once samples come."""
        server, self._server = self._server, None
        if server is not None:
            server.socket.close()  # this process's share of it alone
        self._values = {}
        self._due_ns = min(self._due_ns, self._now_ns())

    def _listen(self) -> None:
        if find_spec("prometheus_client") is None:
            self._due_ns = _NEVER_NS
            self._tell("prometheus-client is not installed: pip install 'latencytrace[gpu]'")
            return
        try:
            server = _Server(self._address, self.text, self._on_fault)
        except OSError as error:
            self._tell(str(error))
            return
        server.start()
        self._server = server

    def _tell(self, why: str) -> None:
        if not self._reported:
            self._reported = True
            host, port = self._address
            logger.warning("latencytrace shows no GPU at %s:%d: %s", host, port, why)


class _Server(HTTPServer):
    """Answers with a text, on one thread, one after the other."""

    def __init__(
        self, address: tuple[str, int], text: Callable[[], bytes], on_fault: OnFault
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Handler)
        self.text = text
        self.on_fault = on_fault
        self._stopping = False

    def server_bind(self) -> None:
        """Bind without the standard library's query for our host's name."""
        socket_address = self.server_address
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(socket_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def start(self) -> None:
        """Begin, outside of whatever request is under way."""
        background_thread(self._run, "latencytrace-gpu-port")

    def stop(self) -> None:
        """End, after the answer that is under way."""
        self._stopping = True
        with suppress(OSError):  # of systems that know none of sockets that listen
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore that the caller has gone away."""

    def _run(self) -> None:
        while not self._stopping:
            with guarded("answering a Prometheus", self.on_fault):
                self.handle_request()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers `/metrics`."""

    server: _Server
    timeout = _PATIENCE_S

    def do_GET(self) -> None:
        """Answer."""
        if self.path.partition("?")[0] not in {"/", "/metrics"}:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        body = b""
        with guarded("describing GPUs to a Prometheus", self.server.on_fault):
            body = self.server.text()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing into the program's output."""
