"""Work of FastAPI itself around an endpoint: validating the body, serializing the answer."""

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.model.stage import Stage


class FastApiHook(Hook):
    """Times FastAPI's own work; dependencies are the program's, and stay unattributed."""

    requires = ("fastapi >= 0.100",)
    patches = (
        Patch("fastapi.dependencies.utils", "request_body_to_args", Stage.PREPROCESS),
        Patch("fastapi.routing", "serialize_response", Stage.POSTPROCESS),
    )
