"""The GPU readers that are installed, ours and others': all come through the same door."""

from latencytrace.agent.gpu.reader import GpuReader
from latencytrace.agent.guard import OnFault, guarded
from latencytrace.agent.process.forks import whole_imports
from latencytrace.plugins import GPU_READERS, plugins


def installed_gpu_readers(on_fault: OnFault) -> list[GpuReader]:
    """One of each kind; one that cannot be loaded is logged and left out."""
    readers: list[GpuReader] = []
    for plugin in plugins(GPU_READERS):
        with guarded(f"loading the GPU reader {plugin.name!r}", on_fault):
            with whole_imports.lock:
                kind = plugin.load()
            readers.append(kind())
    return readers
