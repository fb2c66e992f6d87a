"""Packages of this interpreter: versions, hooks, and what would time a call twice."""

import importlib.metadata
import importlib.util
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from latencytrace.agent.timing.hook import Hook
from latencytrace.agent.timing.patching import HookState, unmet
from latencytrace.cli.doctor_checks.unhooked import Used, unhooked_findings
from latencytrace.cli.processes.local_service import EXTRA_HINT, service_is_installed
from latencytrace.extensions.loading import FIX, missing
from latencytrace.plugins import HOOKS
from latencytrace.service.answers.findings.finding import Finding, Verdict

INSTALLED = "installed"
HOOKED = "hooks"
OTHERS = "other instrumentation"
CONTRIB = "opentelemetry_instrumentor"  # the entry-point group of OpenTelemetry's own

# Which of our hooks times the same calls as another instrumentor.
SAME_CALLS = {
    "aiohttp-client": "aiohttp",
    "asgi": "asgi",
    "fastapi": "asgi",
    "flask": "wsgi",
    "google_generativeai": "google_genai",
    "grpc_client": "grpc",
    "grpc_server": "grpc",
    "starlette": "asgi",
    "wsgi": "wsgi",
}
# Hooks that leave a call to another tracer.
STAND_ASIDE = frozenset(
    {
        "asgi", "wsgi", "aiohttp", "httpx", "requests", "urllib3",
        "asyncpg", "psycopg", "psycopg2", "pymemcache", "pymongo", "redis", "sqlite",
        "anthropic", "bedrock", "cohere", "google_genai", "huggingface_hub", "mistralai", "ollama",
        "openai",
    }
)  # fmt: skip
# Distributions that set a tracer provider of their own once the program starts them.
OWN_PROVIDERS = (
    "arize-phoenix-otel",
    "ddtrace",
    "langfuse",
    "logfire",
    "openlit",
    "opentelemetry-distro",
    "traceloop-sdk",
)


def installed_findings(
    hooks: tuple[str, ...] | None, used: Used, *, torch_named: bool = False
) -> Iterator[Finding]:
    """Judge what is installed, as far as a program may use it.

    Args:
        hooks: The hooks that the settings name; None: all.
        used: What the program imports.
        torch_named: Whether the settings name modules of torch.
    """
    yield from _versions()
    yield from _hooks(hooks, used, torch_named=torch_named)
    yield from _others(used)


def _versions() -> Iterator[Finding]:
    version = importlib.metadata.version("latencytrace")
    yield Finding.fine(
        INSTALLED, f"latencytrace {version}, Python {platform.python_version()}, {sys.executable}"
    )
    yield Finding.fine(
        INSTALLED, f"OpenTelemetry SDK {importlib.metadata.version('opentelemetry-sdk')}"
    )
    if service_is_installed():
        yield Finding.fine(
            INSTALLED, "the service, too: `latencytrace run` starts one where none is"
        )
    else:
        yield Finding.note(
            INSTALLED,
            "the agent and the command line, without the service; one must run elsewhere",
            EXTRA_HINT,
        )
    if absent := missing():
        yield Finding.note(
            INSTALLED,
            f"not compiled: {', '.join(absent)}; all works, and costs several times as much",
            FIX,
        )


def _hooks(named: tuple[str, ...] | None, used: Used, *, torch_named: bool) -> Iterator[Finding]:
    """List what is not timed, the shortest first; what is, in one line; not what is absent."""
    found = {plugin.name: plugin for plugin in _entry_points(HOOKS)}
    for name in named or ():
        if name not in found:
            yield Finding.wrong(
                HOOKED,
                f"LATENCYTRACE_HOOKS names {name!r}, and no hook is called so",
                f"choose among {', '.join(found)}",
            )
    judged = [
        _judged(name, plugin, used)
        for name, plugin in found.items()
        if named is None or name in named
    ]
    yield from sorted(
        (
            *(one for one in judged if isinstance(one, Finding)),
            *unhooked_findings(used, HOOKED, torch_named=torch_named),
        ),
        key=lambda one: len(one.what) + len(one.fix or ""),
    )
    libraries = dict.fromkeys(one for one in judged if isinstance(one, str))
    if libraries:
        yield Finding.fine(
            HOOKED, f"each applies once the program imports its library: {', '.join(libraries)}"
        )
    if named is not None:
        left_out = ", ".join(name for name in found if name not in named)
        yield Finding.note(HOOKED, f"left out by LATENCYTRACE_HOOKS: {left_out or 'none'}")


def _entry_points(group: str) -> list[importlib.metadata.EntryPoint]:
    """Those of a group in order of name, each with the distribution that brings it."""
    found = importlib.metadata.entry_points(group=group)
    return sorted(found, key=lambda point: point.name)


def _judged(name: str, plugin: importlib.metadata.EntryPoint, used: Used) -> Finding | str | None:
    """Return what is wrong with a hook, or its library; None: that is not there, or not used."""
    try:
        hook = plugin.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        return Finding.wrong(
            HOOKED,
            f"{name}: cannot be loaded: {error}",
            f"install {plugin.dist.name if plugin.dist else 'its package'} again",
        )
    may_be_used = used.may_use(each.partition(" ")[0] for each in hook.requires)
    refusal = unmet(hook.requires)
    if refusal is None:
        return (", ".join(_installed(hook.requires)) or name) if may_be_used else None
    if refusal[0] is not HookState.REFUSED:
        return None
    found = _refused(name, hook, refusal[1])
    if may_be_used:
        return found
    # A name in a string brings it in as well: Django's settings, the address of a database.
    what = f"{found.what}; the program's source does not import it"
    return replace(found, verdict=Verdict.NOTE, what=what)


def _refused(name: str, hook: type[Hook], reason: str) -> Finding:
    wanted = " or ".join(f"'{requirement}'" for requirement in hook.requires)
    return Finding.wrong(
        HOOKED, f"{name}: not applied, {reason}", f"pip install {wanted.replace(' >= ', '>=')}"
    )


def _installed(requirements: tuple[str, ...]) -> Iterator[str]:
    """Those distributions among the required that are there, with their versions."""
    for requirement in requirements:
        name = requirement.partition(" ")[0]
        try:
            yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            continue


def _others(used: Used) -> Iterator[Finding]:
    """Name others that would time the same calls, or provide the spans."""
    ours = {plugin.name: plugin for plugin in _entry_points(HOOKS)}
    for plugin in _entry_points(CONTRIB):
        hook = SAME_CALLS.get(plugin.name, plugin.name)
        if hook in ours and plugin.dist is not None and _may_run(ours[hook], used):
            yield _doubled(f"{plugin.dist.name} {plugin.dist.version}", hook, plugin.module, used)
    for name in OWN_PROVIDERS:
        if not used.may_use([name]):
            continue
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        yield Finding.note(
            OTHERS,
            f"{name} {version}: where the program starts it, its tracer provider makes the "
            "spans, ours included, at its own price",
        )
    if used.may_use(["fastapi"]) and _has_native_telemetry():
        version = importlib.metadata.version("fastapi")
        yield Finding.fine(
            OTHERS, f"fastapi {version} traces by itself: silenced for requests that we time"
        )


def _may_run(plugin: importlib.metadata.EntryPoint, used: Used) -> bool:
    """Tell whether a hook's library is used; one that cannot be loaded is a finding elsewhere."""
    try:
        required: tuple[str, ...] = plugin.load().requires
    except (ImportError, AttributeError, SyntaxError):
        return False
    return used.may_use(each.partition(" ")[0] for each in required)


def _doubled(name: str, hook: str, module: str, used: Used) -> Finding:
    """Judge an instrumentor of calls that a hook times; one that is imported is started."""
    started = any(each == module or each.startswith(f"{module}.") for each in used.modules or ())
    where = "the program starts it:" if started else "where the program starts it,"
    if hook in STAND_ASIDE:
        return Finding.note(OTHERS, f"{name}: {where} its span is used (hook {hook})")
    twice = f"{name}: {where} each call is timed twice (hook {hook})"
    fix = f"leave {module} out of the program" if started else None
    return Finding.note(OTHERS, twice, fix)


def _has_native_telemetry() -> bool:
    """Tell whether FastAPI makes server spans itself; it is not imported for that."""
    spec = importlib.util.find_spec("fastapi")
    places = (spec.submodule_search_locations or ()) if spec is not None else ()
    return any((Path(place) / "telemetry").is_dir() for place in places)
