"""A model that generates all the time, as a program under load."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import latencytrace
from tests.support.models.tiny_chat import TinyChat


@contextmanager
def generating(chat: TinyChat) -> Iterator[None]:
    """One request after the other, in a thread."""
    ending = threading.Event()

    def generate() -> None:
        while not ending.is_set():
            with latencytrace.stage("request"):
                chat.model.generate(chat.prompt(), max_new_tokens=4, do_sample=False)

    thread = threading.Thread(target=generate)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
