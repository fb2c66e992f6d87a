"""Copies of torch's tensors between host and device, where the user asks for them.

It puts functions in the place of methods of every tensor, so that it is off by default.
"""

import importlib
from collections.abc import Callable
from typing import Any

from latencytrace.agent.guard import guarded
from latencytrace.agent.timing.hook import Hook, HookOptions, Patch, Replacement, Timed
from latencytrace.agent.timing.recorder import Recorder
from latencytrace.agent.toolkit.models.device_copies import (
    TO_DEVICE,
    TO_HOST,
    DeviceCopies,
    DeviceCopy,
)

CopyOf = Callable[..., tuple[Any, str, Any] | None]  # the device, the direction, what is copied


class _Copied:
    """From a method's arguments to what it copies between host and device; None: nothing."""

    def __init__(self) -> None:
        torch = importlib.import_module("torch")
        self._tensor = torch.Tensor
        self._dtype = torch.dtype
        self._kinds = (torch.Tensor, torch.nn.Parameter)  # others do as they like
        self._device = torch.device
        self._cuda = torch.cuda

    def to(self, tensor: Any, *args: Any, **kwargs: Any) -> tuple[Any, str, Any] | None:
        to = kwargs.get("device", kwargs.get("other", args[0] if args else None))
        if isinstance(to, self._tensor):
            to = to.device
        if not isinstance(to, str | int | self._device):  # a type of numbers
            return None
        return self._between(tensor, self._placed(to))

    def cuda(self, tensor: Any, device: Any = None, *_: Any, **__: Any) -> Any:
        return self._between(tensor, self._placed("cuda" if device is None else device))

    def cpu(self, tensor: Any, *_: Any, **__: Any) -> Any:
        return self._between(tensor, self._device("cpu"))

    def copy_(self, tensor: Any, src: Any = None, *_: Any, **kwargs: Any) -> Any:
        """Of `copy_`, which copies the other way round."""
        other = kwargs.get("other", src)
        return self._between(other, tensor.device) if isinstance(other, self._kinds) else None

    def is_none(self, method: str, args: tuple[Any, ...]) -> bool:
        """Say at a glance that a call copies nothing: most calls are such."""
        if not args or type(args[0]) not in self._kinds:  # asked, others may do anything
            return True
        if len(args) == 1:
            return method == "cpu" and args[0].is_cpu
        to = args[1]
        kind = type(to)
        if kind is self._dtype:
            return True
        if kind is self._device:
            to = to.type
        elif kind in self._kinds:
            return bool(to.is_cpu is args[0].is_cpu)
        return bool(args[0].is_cpu is (to == "cpu"))

    def _placed(self, device: Any) -> Any:
        """A device by its number, since the current one may change."""
        found = self._device(device)
        if found.type == "cuda" and found.index is None:
            return self._device("cuda", self._cuda.current_device())
        return found

    def _between(self, tensor: Any, to: Any) -> tuple[Any, str, Any] | None:
        if type(tensor) not in self._kinds or tensor.is_cpu == (to.type == "cpu"):
            return None
        if tensor.is_cpu:
            return to, TO_DEVICE, tensor
        return tensor.device, TO_HOST, tensor


def time_copy(method: str) -> Callable[[Recorder, Timed], Timed]:
    """Build what times one method of tensors, where no compiler looks on and CUDA is in use."""

    def build(recorder: Recorder, original: Timed) -> Timed:
        is_compiling = importlib.import_module("torch.compiler").is_compiling
        cuda_runs = importlib.import_module("torch.cuda").is_initialized
        copied, copies = _Copied(), DeviceCopies(recorder)
        is_none, copy_of = copied.is_none, getattr(copied, method)

        def copying(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not cuda_runs() or is_none(method, args):
                return original(*args, **kwargs)
            copy = _begun(recorder, copies, copy_of, args, kwargs)
            if copy is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except BaseException:
                copy.drop()
                raise
            copy.finish()
            return result

        return copying

    return build


def _begun(
    recorder: Recorder,
    copies: DeviceCopies,
    copy_of: CopyOf,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> DeviceCopy | None:
    with guarded("timing a copy", recorder.on_fault):
        try:
            copy = copy_of(*args, **kwargs)
        except (RuntimeError, TypeError):  # no such device: the call will say so
            return None
        if copy is not None:
            device, direction, tensor = copy
            return copies.begin(device, direction, tensor.numel() * tensor.element_size())
    return None


class TorchCopiesHook(Hook):
    """Times `to`, `cuda`, `cpu` and `copy_` of tensors, if `LATENCYTRACE_TORCH_COPIES` says so."""

    requires = ("torch >= 2.1",)

    @classmethod
    def table(cls, options: HookOptions) -> tuple[Patch | Replacement, ...]:
        """The original is kept on the class: compilers know the methods that they find there."""
        if not options.torch_copies:
            return ()
        return tuple(
            Replacement(
                "torch",
                f"Tensor.{method}",
                time_copy(method),
                kept_as=f"_latencytrace_{method}",
                bare=True,
            )
            for method in ("to", "cuda", "cpu", "copy_")
        )
