"""The contract of a hook: which calls of one library are timed, and how."""

from collections.abc import Mapping

from latencytrace.model.span import AttributeValue

Arguments = Mapping[str, object]  # of the timed call, by parameter name, defaults included
HookAttributes = dict[str, AttributeValue]
