"""Compilations of JAX, and waits for what it computes."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
from latencytrace.model.stage import Stage


class JaxHook(Hook):
    """Times compiling, and where a request waits for results: a call itself only begins them."""

    requires = ("jax >= 0.4.30",)
    patches = (
        Patch(
            "jax._src.compiler",
            "compile_or_get_cached",
            Stage.LOAD,
            name="compile",
            within=True,
        ),
        first_of_each_span(
            Patch("jax", "block_until_ready", Stage.FORWARD, name="wait for results", within=True)
        ),
    )
