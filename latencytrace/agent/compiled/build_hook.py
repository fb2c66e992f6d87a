"""Compiles the agent's core while the package is built; without a compiler there is none.

The package is whole without it: each part is a quicker form of functions in Python.
"""

import os
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("latencytrace/agent/compiled")


class CompileCore(BuildHookInterface):  # type: ignore[type-arg]
    """Builds `_core` beside its sources, for wheels and for editable installations."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Compile, and say for which interpreter the wheel is."""
        if self.target_name != "wheel" or not can_be_compiled():
            return
        built = compiled(Path(self.root))
        if built is not None:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"].append(f"/{built.as_posix()}")


def can_be_compiled() -> bool:
    """Tell whether this interpreter may have the core, and nobody refused it."""
    return (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and os.environ.get("LATENCYTRACE_COMPILED", "").strip() != "0"  # noqa: TID251 - nobody else is there to ask
    )


def compiled(root: Path) -> Path | None:
    """Compile the core in its folder; return the file below the root, None: it cannot be."""
    from setuptools import Distribution, Extension  # noqa: PLC0415 - only where it is compiled
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    name = ".".join((*FOLDER.parts, "_core"))
    sources = [path.relative_to(root).as_posix() for path in sorted((root / FOLDER).glob("*.c"))]
    core = Extension(
        name,
        sources,
        depends=[p.relative_to(root).as_posix() for p in (root / FOLDER).glob("*.h")],
        extra_compile_args=["-O2", "-fno-plt", "-fvisibility=hidden", "-Wall", "-Wextra", "-g0"],
    )
    here = Path.cwd()
    os.chdir(root)
    try:
        command = build_ext(Distribution({"name": "latencytrace", "ext_modules": [core]}))
        command.inplace = True
        command.build_temp = "build/core"
        command.ensure_finalized()
        command.run()
        return Path(command.get_ext_fullpath(name)).resolve().relative_to(root.resolve())
    except Exception as error:  # noqa: BLE001 - whatever a compiler does: the package is whole without
        warnings.warn(
            f"latencytrace is installed without its compiled core: {error}", stacklevel=2
        )
        return None
    finally:
        os.chdir(here)
