"""An answer of the API, encoded at once."""

import orjson
from fastapi.responses import Response


class JsonAnswer(Response):
    """A document as JSON.

    FastAPI takes it as it is. Checking a document against its description again would
    take longer than making it; tests hold the two together.
    """

    media_type = "application/json"

    def __init__(self, document: object, status: int = 200) -> None:
        body = orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)  # stages are keys
        super().__init__(body, status)
