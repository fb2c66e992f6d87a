"""The passages to answer from: the docstrings of Python's standard library, and their vectors."""

import ast
import json
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from caching import filled
from qdrant_client import QdrantClient
from qdrant_client.models import Distance, FieldCondition, Filter, MatchText, VectorParams
from sentence_transformers import SentenceTransformer

COLLECTION = "standard_library"
SHORTEST_CHARACTERS = 200
LONGEST_CHARACTERS = 240
NOT_LIBRARY = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
EMBEDDED_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Passage:
    source: str
    text: str


class PassageIndex:
    """Finds the passages nearest in meaning to a question."""

    def __init__(
        self, embedder: SentenceTransformer, client: QdrantClient, excluded: Sequence[str]
    ) -> None:
        self._embedder = embedder
        self._client = client
        # The payload has no index: each of these is held against each passage.
        named = [
            FieldCondition(key="source", match=MatchText(text=name)) for name in excluded if name
        ]
        self._filter = Filter(must_not=named) if named else None

    def search(self, question: str, limit: int) -> list[Passage]:
        vector = self._embedder.encode(question, show_progress_bar=False)
        found = self._client.query_points(
            COLLECTION, query=vector, query_filter=self._filter, limit=limit
        )
        return [Passage(**point.payload) for point in found.points if point.payload]


def open_index(
    embedder: SentenceTransformer, cache: Path, most: int | None, excluded: Sequence[str]
) -> PassageIndex:
    """Index every passage, or about so many; vectors are computed once and kept in the cache."""
    folder = cache / (COLLECTION if most is None else f"{COLLECTION}_{most}")
    passages, vectors = _cached_vectors(folder) or _computed_vectors(embedder, folder, most)
    client = QdrantClient(":memory:")
    client.create_collection(
        COLLECTION, vectors_config=VectorParams(size=vectors.shape[1], distance=Distance.COSINE)
    )
    client.upload_collection(
        COLLECTION,
        vectors=vectors,
        payload=[{"source": passage.source, "text": passage.text} for passage in passages],
    )
    print(f"rag_chat: {len(passages)} passages indexed", flush=True)
    return PassageIndex(embedder, client, excluded)


def library_sources() -> Iterator[Path]:
    """The standard library's modules, in a fixed order."""
    folder = Path(sysconfig.get_path("stdlib"))
    for path in sorted(folder.rglob("*.py")):
        if not NOT_LIBRARY.intersection(path.relative_to(folder).parts):
            yield path


def _cached_vectors(folder: Path) -> tuple[list[Passage], np.ndarray] | None:
    if not folder.exists():
        return None
    listed = json.loads((folder / "passages.json").read_text("utf-8"))
    return [Passage(**passage) for passage in listed], np.load(folder / "vectors.npy")


def _computed_vectors(
    embedder: SentenceTransformer, folder: Path, most: int | None
) -> tuple[list[Passage], np.ndarray]:
    print("rag_chat: reading the standard library's docstrings (first start only)", flush=True)
    found = list(_docstrings())
    every = 1 if most is None else max(1, len(found) // most)
    passages = sorted(found[::every], key=lambda passage: len(passage.text))
    parts = []
    for start in range(0, len(passages), EMBEDDED_AT_ONCE):
        texts = [passage.text for passage in passages[start : start + EMBEDDED_AT_ONCE]]
        parts.append(embedder.encode(texts, batch_size=8, show_progress_bar=False))
        done = start + len(texts)
        print(f"rag_chat: embedded {done} of {len(passages)} passages", flush=True)
    vectors = np.concatenate(parts)
    _save(passages, vectors, folder)
    return passages, vectors


def _save(passages: list[Passage], vectors: np.ndarray, folder: Path) -> None:
    listed = [{"source": passage.source, "text": passage.text} for passage in passages]
    with filled(folder) as unfinished:
        np.save(unfinished / "vectors.npy", vectors)
        (unfinished / "passages.json").write_text(json.dumps(listed), "utf-8")


def _docstrings() -> Iterator[Passage]:
    root = Path(sysconfig.get_path("stdlib"))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for path in library_sources():
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_bytes())):
            text = ast.get_docstring(node) if isinstance(node, documented) else None
            if text and len(text) >= SHORTEST_CHARACTERS:
                name = "" if isinstance(node, ast.Module) else f".{node.name}"
                yield Passage(f"{module}{name}", text[:LONGEST_CHARACTERS])
