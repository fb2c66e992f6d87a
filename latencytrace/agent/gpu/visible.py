"""Finds the driver's GPUs that a program sees, by its `CUDA_VISIBLE_DEVICES`."""

from collections.abc import Sequence

from latencytrace.model.gpu.sample import GpuDevice


def visible_gpus(
    text: str | None, gpus: Sequence[GpuDevice], *, in_bus_order: bool
) -> tuple[GpuDevice, ...] | None:
    """The GPUs that a program sees, in its own numbering, as CUDA reads the variable.

    Once CUDA runs its own answer is better; this one needs no CUDA.

    Args:
        text: Of the variable; None: it is not set.
        gpus: All that the driver shows, instances of partitioned ones too.
        in_bus_order: CUDA numbers as the driver does (`CUDA_DEVICE_ORDER=PCI_BUS_ID`); else
            the fastest first, which only CUDA knows of GPUs that differ.

    Returns:
        None: it cannot be known without CUDA.
    """
    whole = [gpu for gpu in gpus if gpu.parent_uuid is None]
    alike = in_bus_order or len({gpu.name for gpu in whole}) <= 1
    if text is None:
        return tuple(whole) if alike else None
    seen: list[GpuDevice] = []
    for name in (part.strip() for part in text.split(",")):
        if name.isdecimal():
            if not alike:
                return None
            found = [gpu for gpu in whole if gpu.index == int(name)]
        else:  # the beginning of a UUID is enough, as long as it is of one GPU alone
            found = [gpu for gpu in gpus if name and gpu.uuid.startswith(name)]
        if len(found) != 1:  # CUDA stops at the first that it does not find
            break
        if found[0] in seen:  # and sees none at all where one is named twice
            return ()
        seen.append(found[0])
        if found[0].parent_uuid is not None:  # and one instance at most
            return (found[0],)
    return tuple(seen)
