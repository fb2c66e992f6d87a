"""The only reader of the environment: frozen values for the composition roots."""

import os
import re
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from latencytrace.errors import SettingsError
from latencytrace.model.span_limits import SpanLimits
from latencytrace.model.texts.secrets import shown, with_path
from latencytrace.variables import (
    OFF,
    flag,
    headers,
    length_s,
    names,
    number,
    of_signal,
    optional_flag,
    rising,
    size_bytes,
    specified_flag,
    web_address,
)

DEFAULT_OTLP_ENDPOINT = "http://127.0.0.1:4318"
DEFAULT_GRPC_ENDPOINT = "http://127.0.0.1:4317"
DEFAULT_URL = "http://127.0.0.1:8321"
DEFAULT_GPU_INTERVAL_S = 0.2
SHORTEST_GPU_INTERVAL_S = 0.11  # the counters of GPUs change every 100 ms
GRPC = "grpc"  # a protocol of OTLP
KEEP_REQUESTS_S = 30 * 86_400.0
LONGEST_S = 7 * 86_400
MOST_LONGEST_S = 31 * 86_400
KEEP_SPANS_S = 7 * 86_400.0
MAX_DISK_BYTES = 20e9
STOP_WITHIN_S = 10.0
MAX_WEIGHT = 1024  # the least share that our agent records to keep its budget
MOST_WEIGHT = 1_000_000
ALL_TRACES = "parentbased_always_on"  # a sampler: all but those of a parent that is not
DEFAULT_OVERHEAD = 0.01  # of the process's CPU time, for the agent
MOST_WAITING = 1 << 40  # spans or bytes: more than there is memory for


class Address(NamedTuple):
    """A host and a port to listen on."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `HOST:PORT`, `:PORT` (loopback) or `[IPV6]:PORT`.

        Raises:
            SettingsError: The text is none of these.
        """
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the largest port
            raise SettingsError(f"{text!r} is not an address: write HOST:PORT, as 127.0.0.1:8321")
        return cls(host=host.strip("[]") or "127.0.0.1", port=int(port))

    @property
    def url(self) -> str:
        """Where programs on this machine find what listens there."""
        everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what serve may be given
        return f"http://{self._replace(host=everywhere.get(self.host, self.host))}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class AgentSettings(NamedTuple):
    """Settings of the agent in the traced process."""

    disabled: bool
    service_name: str | None
    endpoint: str  # a password may stand in it; the base address, without /v1/traces
    traces_url: str  # where traces are posted; over gRPC the base address of that
    metrics_url: str | None  # where the agent reports on itself; None: nowhere
    headers: Mapping[str, str]
    timeout_s: float
    interval_s: float  # between two exports
    queue_spans: int
    hooks: tuple[str, ...] | None  # None: all
    grpc: bool = False  # spans are sent over gRPC, else over HTTP
    torch_modules: tuple[str, ...] = ()  # `Class` or `package.module:Class`, timed as `forward`
    torch_copies: bool = False  # time tensors' own copies between host and device
    sampler: str = ALL_TRACES
    sampler_argument: str = ""
    queue_bytes: int = 64 << 20
    gzip: bool = False
    # Files: authorities that a receiver over TLS is checked by, a certificate of ours, its key.
    tls_files: tuple[str | None, str | None, str | None] = (None, None, None)
    limits: SpanLimits = SpanLimits()
    propagate_to: tuple[str, ...] = ()  # patterns of hosts, `!` before those left out; (): all
    log_correlation: bool = False  # put trace and span ids on log records
    server_timing: bool = False  # answer with the stages in a header
    gpu: bool | None = None  # whether to read GPUs; None: where there are any
    gpu_interval_s: float = DEFAULT_GPU_INTERVAL_S
    gpu_port: Address | None = None  # where a Prometheus may ask for them; None: nowhere
    visible_gpus: str | None = None  # CUDA_VISIBLE_DEVICES; None: not set
    gpus_in_bus_order: bool = False
    profile: bool = True  # take profiles where the service asks for one
    nvtx: bool = False  # show passes on devices to NVIDIA's profilers
    overhead_ratio: float | None = DEFAULT_OVERHEAD  # of the process's CPU time; None: no budget
    may_sample: bool = False  # to keep that budget; else less is recorded, but of every request
    control_ratio: float = 0.0  # of requests, that the others' durations are held against
    resource_attributes: str = ""  # of the process, as the variable has them
    resource_detectors: bool = False  # ask the SDK's, too

    def __repr__(self) -> str:
        return _without_secrets(self, {"endpoint", "traces_url", "metrics_url", "headers"})


FORWARDED_PREFIX: Final = "X-Forwarded-Prefix"  # a header of proxies


class ServiceSettings(NamedTuple):
    """Settings of the service."""

    folder: Path
    listen: Address
    otlp_http: Address
    otlp_grpc: Address | None  # None: no listener
    store: str  # a plugin's name, or an address that begins with one
    keep_spans_ratio: float
    token: str | None
    capture_content: bool = False  # keep prompts, texts and the like
    objectives: Path | None = None  # a file of objectives; None: there are none
    public_url: str | None = None  # in links to the API; None: where it listens
    root_path: str | None = None  # below which a proxy shows the pages, or the header that says it
    dashboard_url: str | None = None  # of a Grafana dashboard that alerts link to
    sinks: tuple[tuple[str, str], ...] = (("log", ""),)  # plugins' names and addresses
    scrape: tuple[str, ...] = ()  # addresses of engines' metrics, and of GPU exporters'
    gpu_estimates: bool = False  # show an upper bound of bandwidth where it is not counted
    metrics_endpoint: str | None = None  # where metrics are sent over OTLP; None: nowhere
    metrics_protocol: str | None = None  # of OTLP; None: HTTP
    metrics_routes: int = 100  # of a service, that metrics tell apart
    stage_buckets: tuple[float, ...] = ()  # of the stages' histogram, in seconds; none: ours
    profile_on_alert: bool = False  # alerts ask for a profile
    settle_s: float = 10.0  # without a span, before a request is counted
    stop_within_s: float = STOP_WITHIN_S  # of the signal, whatever is under way
    keep_requests_s: float | None = KEEP_REQUESTS_S  # None: for ever, as below
    keep_spans_s: float | None = KEEP_SPANS_S
    max_disk_bytes: float | None = MAX_DISK_BYTES
    max_weight: int = MAX_WEIGHT  # of a request that is believed; 1: none
    longest_ns: int = LONGEST_S * 10**9  # of a span that is believed

    def __repr__(self) -> str:
        return _without_secrets(self, {"store", "token", "sinks"})


def _without_secrets(settings: AgentSettings | ServiceSettings, secrets: Collection[str]) -> str:
    """Return settings as text, without those in which a password may stand."""
    shown_ones = (
        f"{name}={value!r}" for name, value in settings._asdict().items() if name not in secrets
    )
    return f"{type(settings).__name__}({', '.join(shown_ones)})"


def names_receiver(environ: Mapping[str, str] = os.environ) -> bool:
    """Tell whether the environment says where spans go, or that they go over gRPC."""
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return otlp_protocol(environ) == GRPC or any(environ.get(name, "").strip() for name in names)


def agent_settings(
    *,
    endpoint: str | None = None,
    service_name: str | None = None,
    hooks: tuple[str, ...] | None = None,
    gpu: bool | None = None,
    over_http: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> AgentSettings:
    """Settings of the agent: arguments first, then the environment, then defaults.

    Args:
        endpoint: The base address to send to.
        hooks: Names of the hooks to apply; None: all.
        over_http: Whatever the environment says of the protocol.

    Raises:
        SettingsError: A value cannot be used; the message names the variable.
    """
    grpc = not over_http and otlp_protocol(environ) == GRPC
    default = DEFAULT_GRPC_ENDPOINT if grpc else DEFAULT_OTLP_ENDPOINT
    named = endpoint or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    base = (named.strip() or default).rstrip("/")
    if grpc:
        base = _with_scheme(base, environ)
    if not base.startswith(("http://", "https://")):
        raise SettingsError(f"endpoint {shown(base)!r} must begin with http:// or https://")
    own = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip() if not endpoint else None
    own = own or None
    named_hooks = environ.get("LATENCYTRACE_HOOKS")
    if hooks is None and named_hooks:
        hooks = tuple(name.strip() for name in named_hooks.split(",") if name.strip())
    return AgentSettings(
        disabled=is_disabled(environ),
        service_name=service_name or environ.get("OTEL_SERVICE_NAME") or None,
        endpoint=base,
        traces_url=_with_scheme(own or base, environ)
        if grpc
        else own or with_path(base, "/v1/traces"),
        grpc=grpc,
        metrics_url=_metrics_url(environ, base, of_traces_alone=own is not None, grpc=grpc),
        headers=headers(environ),
        timeout_s=_timeout_s(environ),
        interval_s=number(environ, "OTEL_BSP_SCHEDULE_DELAY", 500, least=1, most=3_600_000) / 1000,
        queue_spans=_most_waiting(environ, "OTEL_BSP_MAX_QUEUE_SIZE", 65536),
        hooks=hooks,
        torch_modules=names(environ, "LATENCYTRACE_TORCH_MODULES"),
        torch_copies=flag(environ, "LATENCYTRACE_TORCH_COPIES"),
        sampler=environ.get("OTEL_TRACES_SAMPLER", "").strip().lower() or ALL_TRACES,
        sampler_argument=environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip(),
        limits=SpanLimits.parse(environ),
        queue_bytes=_most_waiting(environ, "LATENCYTRACE_QUEUE_BYTES", 64 << 20),
        gzip=of_signal(environ, "TRACES", "COMPRESSION") == "gzip",
        tls_files=_tls_files(environ),
        propagate_to=names(environ, "LATENCYTRACE_PROPAGATE_TO"),
        log_correlation=flag(environ, "OTEL_PYTHON_LOG_CORRELATION"),
        server_timing=flag(environ, "LATENCYTRACE_SERVER_TIMING"),
        gpu=optional_flag(environ, "LATENCYTRACE_GPU") if gpu is None else gpu,
        gpu_interval_s=_gpu_interval_s(environ),
        gpu_port=_gpu_port(environ),
        visible_gpus=environ.get("CUDA_VISIBLE_DEVICES"),
        gpus_in_bus_order=environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID",
        profile=optional_flag(environ, "LATENCYTRACE_PROFILE") is not False,
        nvtx=flag(environ, "LATENCYTRACE_NVTX"),
        overhead_ratio=_overhead_ratio(environ),
        may_sample=bool(environ.get("LATENCYTRACE_OVERHEAD", "").strip()),
        control_ratio=number(environ, "LATENCYTRACE_CONTROL", 0.0, least=0, most=0.5),
        resource_attributes=environ.get("OTEL_RESOURCE_ATTRIBUTES", ""),
        resource_detectors=bool(names(environ, "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS")),
    )


def service_settings(
    *,
    folder: Path | None = None,
    listen: str | None = None,
    otlp_http: str | None = None,
    otlp_grpc: str | None = None,
    store: str | None = None,
    keep_spans_ratio: float | None = None,
    objectives: Path | None = None,
    max_weight: int | None = None,
    root_path: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ServiceSettings:
    """Settings of the service: flags first, then the environment, then defaults.

    Raises:
        SettingsError: A value cannot be used; the message names the variable.
    """
    if keep_spans_ratio is None:
        keep_spans_ratio = number(environ, "LATENCYTRACE_KEEP_SPANS", 1.0)
    if not 0 <= keep_spans_ratio <= 1:
        raise SettingsError(f"--keep-spans is a ratio between 0 and 1, not {keep_spans_ratio}")
    if max_weight is None:
        max_weight = int(
            number(environ, "LATENCYTRACE_MAX_WEIGHT", MAX_WEIGHT, least=1, most=MOST_WEIGHT)
        )
    if not 1 <= max_weight <= MOST_WEIGHT:
        raise SettingsError(f"--max-weight is from 1 to {MOST_WEIGHT}, not {max_weight}")
    grpc = otlp_grpc or environ.get("LATENCYTRACE_OTLP_GRPC") or "127.0.0.1:4317"
    return ServiceSettings(
        folder=folder or data_folder(environ),
        listen=Address.parse(listen or environ.get("LATENCYTRACE_LISTEN") or "127.0.0.1:8321"),
        otlp_http=Address.parse(
            otlp_http or environ.get("LATENCYTRACE_OTLP_HTTP") or "127.0.0.1:4318"
        ),
        otlp_grpc=None if grpc == OFF else Address.parse(grpc),
        store=_store(store or environ.get("LATENCYTRACE_STORE") or "chdb", environ),
        keep_spans_ratio=keep_spans_ratio,
        token=service_token(environ),
        capture_content=flag(environ, "LATENCYTRACE_CAPTURE_CONTENT"),
        objectives=objectives or objectives_file(environ),
        public_url=web_address(environ, "LATENCYTRACE_PUBLIC_URL"),
        root_path=_root_path(root_path or environ.get("LATENCYTRACE_ROOT_PATH", "")),
        dashboard_url=dashboard_url(environ),
        sinks=_sinks(environ),
        scrape=names(environ, "LATENCYTRACE_SCRAPE"),
        gpu_estimates=flag(environ, "LATENCYTRACE_GPU_ESTIMATE"),
        # Not OpenTelemetry's own variable, which tells agents where this service is.
        metrics_endpoint=environ.get("LATENCYTRACE_METRICS_ENDPOINT", "").strip() or None,
        metrics_protocol=of_signal(environ, "METRICS", "PROTOCOL"),
        metrics_routes=int(number(environ, "LATENCYTRACE_METRICS_ROUTES", 100, least=1, most=200)),
        stage_buckets=rising(environ, "LATENCYTRACE_STAGE_BUCKETS"),
        profile_on_alert=flag(environ, "LATENCYTRACE_PROFILE_ON_ALERT"),
        settle_s=number(environ, "LATENCYTRACE_SETTLE", 10.0, least=0, most=3600),
        stop_within_s=number(
            environ, "LATENCYTRACE_STOP_WITHIN", STOP_WITHIN_S, least=5, most=3600
        ),
        keep_requests_s=length_s(environ, "LATENCYTRACE_KEEP_REQUESTS_FOR", KEEP_REQUESTS_S),
        keep_spans_s=length_s(environ, "LATENCYTRACE_KEEP_SPANS_FOR", KEEP_SPANS_S),
        max_disk_bytes=size_bytes(environ, "LATENCYTRACE_MAX_DISK", MAX_DISK_BYTES),
        max_weight=max_weight,
        longest_ns=_longest_ns(environ),
    )


def _longest_ns(environ: Mapping[str, str]) -> int:
    longest_s = length_s(environ, "LATENCYTRACE_LONGEST", LONGEST_S)
    if longest_s is None or not 1 <= longest_s <= MOST_LONGEST_S:
        raise SettingsError("LATENCYTRACE_LONGEST is from 1s to 31d")
    return round(longest_s * 1e9)


def tracing_variables(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Every variable that is set and that tracing reads, for `doctor` to judge."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(("LATENCYTRACE_", "OTEL_")) or name == "PYTHONPATH"
    }


def without_our_folder(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment for a Python that shall not find packages just because we stand in them."""
    return {**environ, "PYTHONSAFEPATH": "1"}


def service_listens(environ: Mapping[str, str] = os.environ) -> Address | None:
    """Where a service listens by its own variable, on a port that is known; None: it is unset.

    Raises:
        SettingsError: The value is not an address.
    """
    named = environ.get("LATENCYTRACE_LISTEN")
    address = Address.parse(named) if named else None
    return address if address is None or address.port else None


def service_url(environ: Mapping[str, str] = os.environ) -> str:
    """Return the address of the service: the one named, else where `serve` would listen.

    Raises:
        SettingsError: The value is not an address.
    """
    named = environ.get("LATENCYTRACE_URL")
    listens = None if named else service_listens(environ)
    return (named or (listens.url if listens else DEFAULT_URL)).rstrip("/")


def service_token(environ: Mapping[str, str] = os.environ) -> str | None:
    """The token of a service off loopback.

    Raises:
        SettingsError: No header can hold it.
    """
    token = environ.get("LATENCYTRACE_TOKEN") or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise SettingsError("LATENCYTRACE_TOKEN must be of ASCII signs, without line ends")
    return token


def pager_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The program that long pictures are shown by; nothing: they are printed whole."""
    named = environ.get("PAGER", "less")
    dumb = environ.get("TERM") in {"dumb", "emacs"}
    try:
        return [] if dumb or named == "cat" else shlex.split(named)
    except ValueError:  # quotes that never end
        return []


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where the embedded store keeps its data, unless a flag names one."""
    named = environ.get("LATENCYTRACE_DATA")
    if named:
        return Path(named)
    home = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(home) / "latencytrace"


def otlp_protocol(environ: Mapping[str, str] = os.environ) -> str:
    """The protocol of OTLP that traces shall be sent by; empty where none is set."""
    named = environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "").strip()
    return (named or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "").strip()).lower()


def _with_scheme(address: str, environ: Mapping[str, str]) -> str:
    """An address of gRPC, which may stand without scheme: then a variable says whether plain."""
    if "://" in address:
        return address
    insecure = any(
        specified_flag(environ, name)
        for name in ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE")
    )
    return f"{'http' if insecure else 'https'}://{address}"


def is_disabled(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the agent shall not start, for want of a receiver."""
    nobody = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"
    return nobody or bool(off_switches(environ))


def off_switches(environ: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that switch the agent off."""
    ours, specified = "LATENCYTRACE_DISABLED", "OTEL_SDK_DISABLED"
    switches = [ours] if flag(environ, ours) else []
    return [*switches, specified] if specified_flag(environ, specified) else switches


def _tls_files(environ: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    return (
        of_signal(environ, "TRACES", "CERTIFICATE"),
        of_signal(environ, "TRACES", "CLIENT_CERTIFICATE"),
        of_signal(environ, "TRACES", "CLIENT_KEY"),
    )


def _most_waiting(environ: Mapping[str, str], name: str, default: int) -> int:
    return int(number(environ, name, default, least=1, most=MOST_WAITING))


def _overhead_ratio(environ: Mapping[str, str]) -> float | None:
    """Return the budget of the agent; None: `off` or 0."""
    name = "LATENCYTRACE_OVERHEAD"
    if environ.get(name, "").strip().lower() == OFF:
        return None
    return number(environ, name, DEFAULT_OVERHEAD, least=0, most=1) or None


def _timeout_s(environ: Mapping[str, str]) -> float:
    both = number(environ, "OTEL_EXPORTER_OTLP_TIMEOUT", 10.0, least=0.001, most=3600)
    return number(environ, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", both, least=0.001, most=3600)


def objectives_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Find the file of objectives: the one named, else the one that lies here, if any."""
    named = environ.get("LATENCYTRACE_OBJECTIVES")
    if named:
        return Path(named)
    here = Path("objectives.yaml")
    return here if here.is_file() else None


def dashboard_url(environ: Mapping[str, str] = os.environ) -> str | None:
    """The address of a Grafana dashboard that alerts link to."""
    return web_address(environ, "LATENCYTRACE_DASHBOARD_URL")


def _store(named: str, environ: Mapping[str, str]) -> str:
    """A store; the address of a ClickHouse server with its password, where it has none itself."""
    scheme, _, rest = named.partition("://")
    if not rest or scheme != "clickhouse" or has_password(named):
        return named
    password = environ.get("LATENCYTRACE_CLICKHOUSE_PASSWORD", "")
    file = environ.get("LATENCYTRACE_CLICKHOUSE_PASSWORD_FILE", "").strip()
    if file and not password:
        try:
            password = Path(file).read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"LATENCYTRACE_CLICKHOUSE_PASSWORD_FILE={file} cannot be read: {error}"
            ) from None
    if not password:
        return named
    user = _user_of(rest)
    host = rest[len(user) + 1 :] if user is not None else rest
    return f"{scheme}://{(user or 'default').rstrip(':')}:{quote(password, safe='')}@{host}"


def has_password(store: str) -> bool:
    user = _user_of(store.partition("://")[2])
    return user is not None and bool(user.partition(":")[2])


def _user_of(rest: str) -> str | None:
    """Return what stands before the host, in an address without its scheme."""
    user, at, _ = re.split("[/?#]", rest, maxsplit=1)[0].rpartition("@")
    return user if at else None


def _root_path(text: str) -> str | None:
    """A path before those of the pages, or the header that says it; None: there is none.

    Raises:
        SettingsError: The text is neither a path nor the header.
    """
    if text.strip().lower() == FORWARDED_PREFIX.lower():
        return FORWARDED_PREFIX
    path = text.strip().rstrip("/")
    if path and not re.fullmatch(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){1,8}", path):
        raise SettingsError(
            f"--root-path {text!r} is no path as /latencytrace, and not {FORWARDED_PREFIX}"
        )
    return path or None


def _sinks(environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Each a name, or a name and an address: `log,webhook=https://HOST/PATH`."""
    parts = filter(None, map(str.strip, (environ.get("LATENCYTRACE_SINKS") or "log").split(",")))
    found = [re.fullmatch(r"([\w.-]+) *(?:= *(.*))?", part) for part in parts]
    sinks = {one[1]: one[2] or "" for one in found if one is not None}
    if not sinks or len(sinks) < len(found):
        raise SettingsError(
            "LATENCYTRACE_SINKS is no list of names, each once, alone or with an address: write "
            "log,webhook=https://HOST/PATH, and a comma in an address as %2C"
        )
    return tuple(sinks.items())


def _gpu_interval_s(environ: Mapping[str, str]) -> float:
    seconds = number(environ, "LATENCYTRACE_GPU_INTERVAL", DEFAULT_GPU_INTERVAL_S)
    if not SHORTEST_GPU_INTERVAL_S <= seconds <= 60:  # noqa: PLR2004 - a minute
        raise SettingsError(
            f"LATENCYTRACE_GPU_INTERVAL={seconds} is not from {SHORTEST_GPU_INTERVAL_S} to 60 "
            "seconds: GPUs change their counters every 0.1 seconds"
        )
    return seconds


def _gpu_port(environ: Mapping[str, str]) -> Address | None:
    text = environ.get("LATENCYTRACE_GPU_PORT", "").strip()
    if not text:
        return None
    try:
        return Address.parse(f":{text}" if text.isdecimal() else text)
    except SettingsError:
        raise SettingsError(
            f"LATENCYTRACE_GPU_PORT={text!r} is no port: write 9835, or HOST:PORT"
        ) from None


def _metrics_url(
    environ: Mapping[str, str], base: str, *, of_traces_alone: bool, grpc: bool
) -> str | None:
    if environ.get("OTEL_METRICS_EXPORTER", "").strip().lower() == "none":
        return None
    own = environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
    if own or (of_traces_alone and not environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")):
        return _with_scheme(own, environ) if own and grpc else own or None
    return base if grpc else with_path(base, "/v1/metrics")
