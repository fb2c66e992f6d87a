"""An address where nobody listens, nor can: its port is taken, without a listener."""

import atexit
import os
import socket
from typing import Final

_PORT: Final = "TESTS_NOWHERE_PORT"  # of the process that started this one, which holds it
if _PORT not in os.environ:
    _taken: Final = socket.socket()
    _taken.bind(("127.0.0.1", 0))
    atexit.register(_taken.close)
    os.environ[_PORT] = str(_taken.getsockname()[1])
NOWHERE: Final = f"http://127.0.0.1:{os.environ[_PORT]}"
