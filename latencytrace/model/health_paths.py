"""Paths at which servers are asked how they are: health, readiness, version or metrics."""

import re

_HEALTH = frozenset(
    {
        "/_health", "/api/health", "/health", "/healthcheck", "/healthz", "/live", "/liveness",
        "/livez", "/metrics", "/ping", "/readiness", "/ready", "/readyz", "/v1/health",
        "/v1/health/live", "/v1/health/ready", "/v2/health/live", "/v2/health/ready",
        "/health/live", "/health/ready", "/health_generate",
        # LiteLLM's proxy
        "/health/backlog", "/health/history", "/health/latest", "/health/liveliness",
        "/health/liveness", "/health/readiness", "/health/readiness/details",
        "/health/services", "/health/shared-status",
        "/-/healthz", "/-/routes",  # Ray Serve
        "/grpc.health.v1.health/check", "grpc.health.v1.health/check",
        "grpc.health.v1.health/watch", "/grpc.health.v1.health/watch",
        *(
            f"{slash}inference.grpcinferenceservice/{method}"  # KServe and Triton
            for slash in ("", "/")
            for method in ("serverlive", "serverready", "modelready")
        ),
    }
)  # fmt: skip
_HEALTH_IF_READ = re.compile(  # what else may be done there by another method
    r"/load|/version"  # vLLM
    r"|/v1/models/[^/:]+"  # KServe
    r"|/v2/models/[^/]+(?:/versions/[^/]+)?/ready"
)
_READS = frozenset({"GET", "HEAD"})


def is_health_path(path: str, method: str) -> bool:
    """Return whether a request of this path is a probe.

    Args:
        path: As it was asked for, or the template of its route.
    """
    path = path.partition("?")[0].rstrip("/").lower()
    return path in _HEALTH or (method in _READS and _HEALTH_IF_READ.fullmatch(path) is not None)
