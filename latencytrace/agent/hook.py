"""The contract of a hook: which calls of one library are timed, and how."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from latencytrace.model.span import AttributeValue
from latencytrace.model.stage import Stage

Arguments = Mapping[str, object]  # of the timed call, by parameter name, defaults included
HookAttributes = dict[str, AttributeValue]
