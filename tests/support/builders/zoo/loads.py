"""The loads of the zoo: those that have a name, and mixtures that a seed decides."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from latencytrace.service.otlp.traces import JSON, PROTOBUF

UNIQUE: Final = ("ids", "urls", "agents", "statements", "names", "keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the spans of a fleet have in common, and what differs among them."""

    pods: int = 1  # of each service
    routes: int = 4
    models: int = 3
    unique: frozenset[str] = frozenset()  # of `UNIQUE`: what differs in every request
    attributes: int = 8  # of a span, at least
    of_kubernetes: bool = False  # resources say what its operator adds
    with_events: bool = False  # and links
    errors_ratio: float = 0.0  # of calls
    retries_ratio: float = 0.0  # of failed calls, made again
    services: int = 1  # in a trace; each has its own posts
    spans_a_post: int = 512
    connections: int = 1  # posts that wait at once
    is_new_each_round: bool = False  # all names of pods, routes, models and tenants
    has_bad_texts: bool = False  # tenants that are not UTF-8
    content_type: str = PROTOBUF
    is_compressed: bool = False
    recorded: str = ""  # a fixture of `tests/analysis`: its traces, again and again


_PLAIN: Final = Load()
LOADS: Final[Mapping[str, Load]] = {
    "plain": _PLAIN,
    "20 pods": replace(_PLAIN, pods=20),
    "200 pods": replace(_PLAIN, pods=200),
    "5 000 pods": replace(_PLAIN, pods=5_000),
    "400 routes": replace(_PLAIN, routes=400),
    "60 models": replace(_PLAIN, models=60),
    "200 pods, 400 routes, 60 models": replace(_PLAIN, pods=200, routes=400, models=60),
    **{f"unique {one}": replace(_PLAIN, unique=frozenset({one})) for one in UNIQUE},
    "60 attributes": replace(_PLAIN, attributes=60),
    "Kubernetes": replace(_PLAIN, pods=20, of_kubernetes=True),
    "events and links": replace(_PLAIN, with_events=True),
    "2 % errors": replace(_PLAIN, errors_ratio=0.02),
    "2 % errors, half tried again": replace(_PLAIN, errors_ratio=0.02, retries_ratio=0.5),
    "50 % errors": replace(_PLAIN, errors_ratio=0.5),
    "50 % errors, tried again, five services": replace(
        _PLAIN, errors_ratio=0.5, retries_ratio=1.0, services=5
    ),
    "two services": replace(_PLAIN, services=2),
    "five services": replace(_PLAIN, services=5),
    "bad texts": replace(_PLAIN, has_bad_texts=True),
    "posts of 1": replace(_PLAIN, spans_a_post=1),
    "posts of 1, 16 connections": replace(_PLAIN, spans_a_post=1, connections=16),
    "posts of 1, 64 connections": replace(_PLAIN, spans_a_post=1, connections=64),
    "posts of 1 in JSON, 64 connections": replace(
        _PLAIN, spans_a_post=1, connections=64, content_type=JSON
    ),
    "64 connections": replace(_PLAIN, connections=64),
    "posts of 8 192": replace(_PLAIN, spans_a_post=8_192),
    "JSON": replace(_PLAIN, content_type=JSON),
    "gzip": replace(_PLAIN, is_compressed=True),
    "all new each round": replace(_PLAIN, pods=20, is_new_each_round=True),
}


RECORDED: Final[Mapping[str, Load]] = {
    f"recorded: {name}": replace(_PLAIN, recorded=name)
    for name in (
        "contrib_asgi", "openllmetry", "openinference", "logfire", "langfuse", "litellm",
        "ai_sdk", "mastra", "strands", "vllm", "sglang", "llm_d",
    )
}  # fmt: skip
"""What others' libraries send, in Python, Node and Go."""


def mixture(seed: int) -> Load:
    """A load that nobody chose by hand."""
    chance = Random(seed)
    return Load(
        pods=chance.choice((1, 20, 200, 5_000)),
        routes=chance.choice((4, 400)),
        models=chance.choice((3, 60)),
        unique=frozenset(one for one in UNIQUE if chance.random() < 1 / 3),
        attributes=chance.choice((8, 8, 60)),
        of_kubernetes=chance.random() < 1 / 2,
        with_events=chance.random() < 1 / 2,
        errors_ratio=chance.choice((0.0, 0.0, 0.02)),
        services=chance.choice((1, 2, 5)),
        spans_a_post=chance.choice((512, 8_192)),
        is_new_each_round=chance.random() < 1 / 2,
        is_compressed=chance.random() < 1 / 2,
    )
