"""Every error that latencytrace raises on purpose.

LatencytraceError
├── SettingsError         a setting has a value that cannot be used
├── ObjectivesError       an objectives file cannot be used
├── PluginError           a plugin is missing or cannot be loaded
├── ServiceUnreachableError  no service answers, and no folder can be read either
├── OtlpError             a sender's bytes are not OTLP
│   └── MediaTypeError    they are said to be something else, or not said to be OTLP
├── OverloadedError       no more can be taken for now
├── GpuUnavailableError   the GPUs of a vendor cannot be read
├── SinkError             an alert could not be delivered
├── ScrapeError           an engine's metrics could not be read
├── QuestionError         a question to the service cannot be understood
├── ProfileError          no profile can be taken, or what was sent is none
├── NotFoundError         what was asked for is not there
└── StoreError            the store cannot do what was asked
    ├── StoreInUseError   another process owns the data folder
    ├── TooLargeError     a piece of a copy takes more memory than it may
    └── PoisonedBlockError  the engine refuses a block of OTLP bytes
"""


class LatencytraceError(Exception):
    """The root of the tree: catch it to catch all of ours."""


class SettingsError(LatencytraceError):
    """A setting has a value that cannot be used."""


class ObjectivesError(LatencytraceError):
    """An objectives file cannot be used; the message names each line and its fix.

    Args:
        message: What is wrong, and what to do.
        line: Where, if it is in a line of its own.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class PluginError(LatencytraceError):
    """A plugin is missing or cannot be loaded."""


class ServiceUnreachableError(LatencytraceError):
    """No service answers at its address, and its folder cannot be read either."""


class OtlpError(LatencytraceError):
    """A sender's bytes are not OTLP."""


class MediaTypeError(OtlpError):
    """A sender's Content-Type is missing or none of OTLP's."""


class OverloadedError(LatencytraceError):
    """No more can be taken for now: the sender shall try again later."""


class GpuUnavailableError(LatencytraceError):
    """The GPUs of a vendor cannot be read; the message says why.

    Args:
        message: Why, and what to do.
        is_final: Whether trying again in this process is of no use.
        is_absent: What it takes is not installed, as on a machine without such GPUs.
    """

    def __init__(self, message: str, *, is_final: bool, is_absent: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.is_absent = is_absent


class SinkError(LatencytraceError):
    """An alert could not be delivered: it is tried again later.

    Args:
        retry_after_s: How long the receiver asks for nothing more; None: it does not say.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ScrapeError(LatencytraceError):
    """An engine's metrics could not be read."""


class QuestionError(LatencytraceError):
    """A question to the service cannot be understood."""


class ProfileError(LatencytraceError):
    """No profile can be taken now, or what was sent is none."""


class NotFoundError(LatencytraceError):
    """The thing that was asked for is not there."""


class StoreError(LatencytraceError):
    """The store cannot do what was asked."""


class TooLargeError(StoreError):
    """A piece of a copy takes more memory than it may: ask for less of it at once."""


class StoreInUseError(StoreError):
    """Another process owns the data folder."""


class PoisonedBlockError(StoreError):
    """The engine refuses a block of OTLP bytes."""
