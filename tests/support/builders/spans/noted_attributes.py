"""Attributes that note what they are asked for."""

from typing import Any

from latencytrace.model import AttributeValue


class Noting(dict[str, AttributeValue]):
    """Attributes that note which keys they are asked for."""

    def __init__(self, attributes: Any, asked: set[str]) -> None:
        super().__init__(attributes)
        self._asked = asked

    def __getitem__(self, key: str) -> AttributeValue:
        self._asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._asked.add(str(key))
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Note the key, whether it is there or not."""
        self._asked.add(key)
        return super().get(key, default)
