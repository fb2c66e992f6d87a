"""Setting context variables while the garbage collector runs somebody's finalizers."""

import os
from textwrap import dedent

from tests.support.servers.command_line import python


def test_a_finalizer_that_sets_variables_in_the_middle_of_ours_breaks_no_program() -> None:
    """Before 3.12, unprotected, this ends by a signal or with a SystemError of the interpreter.

    The collector is made to run at each allocation in turn of those that entering and leaving
    a context make; freed memory is overwritten.
    """
    program = dedent("""
        import gc
        import random
        from contextvars import ContextVar, copy_context

        from opentelemetry.context import Context

        from latencytrace.agent.context import enter, leave

        chance = random.Random(1)
        others = [ContextVar(str(number)) for number in range(10)]
        collections = 0

        def set_some(*_):
            global collections
            gc.disable()
            collections += 1
            for variable in chance.sample(others, 5):
                variable.set(object())

        def collect_within(call, allocation):
            gc.collect()
            copy_context()  # a collection drops the spare ones, which are there as a rule
            gc.callbacks.append(set_some)
            gc.set_threshold(allocation)
            gc.enable()
            result = call()
            gc.disable()
            gc.callbacks.clear()
            return result

        gc.disable()
        gc.freeze()
        for number in range(1_000):
            context = Context({"number": number})
            token = collect_within(lambda: enter(context), 1 + number % 6)
            collect_within(lambda: leave(token), 1 + number // 6 % 6)
        for variable in others:
            token = variable.set("seen")
            assert variable.get() == "seen"
            variable.reset(token)
        print(collections > 100)
    """)

    done = python("-c", program, env=os.environ | {"PYTHONMALLOC": "debug"})

    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
