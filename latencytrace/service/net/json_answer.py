"""An answer of the API, encoded at once."""

import orjson
from fastapi.responses import Response


class JsonAnswer(Response):
    """A document as JSON.

    FastAPI takes it as it is. Checking a document against its description again would
    take longer than making it; tests hold the two together. Its keys are plain texts:
    to allow others makes lists of requests cost over half as much again.
    """

    media_type = "application/json"

    def __init__(self, document: object, status: int = 200) -> None:
        super().__init__(orjson.dumps(document), status)
