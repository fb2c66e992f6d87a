"""Compiles the extension modules while the package is built; without a compiler there are none.

The package is whole without them: each does quicker what functions in Python do.
"""

import os
import sys
import sysconfig
import warnings
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHARED: Final = Path("latencytrace/extensions")  # headers


class CompileExtensions(BuildHookInterface):  # type: ignore[type-arg]
    """Builds each `_core` next to its sources, for wheels and for editable installations."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say for which interpreter the wheel is."""
        if self.target_name != "wheel" or not can_be_compiled():
            return
        for folder in folders(Path(self.root)):
            built = compiled(Path(self.root), folder)
            if built is not None:
                build_data["pure_python"] = False
                build_data["infer_tag"] = True
                build_data["artifacts"].append(f"/{built.as_posix()}")


def can_be_compiled() -> bool:
    """Tell whether this interpreter may have them, and the environment allows them."""
    return (
        sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and os.environ.get("LATENCYTRACE_COMPILED", "").strip() != "0"  # noqa: TID251 - settings are not installed yet
    )


def folders(root: Path) -> list[Path]:
    """Return the folders below the root that have sources in C."""
    return sorted({path.parent.relative_to(root) for path in root.glob("latencytrace/**/*.c")})


def compiled(root: Path, folder: Path) -> Path | None:
    """Compile the sources of a folder there; return the file below the root, None: none."""
    from setuptools import Distribution, Extension  # noqa: PLC0415 - only where it is compiled
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    name = ".".join((*folder.parts, "_core"))
    headers = (*(root / folder).glob("*.h"), *(root / SHARED).glob("*.h"))
    core = Extension(
        name,
        [path.relative_to(root).as_posix() for path in sorted((root / folder).glob("*.c"))],
        depends=[path.relative_to(root).as_posix() for path in headers],
        include_dirs=[SHARED.as_posix()],
        extra_compile_args=["-O2", "-fno-plt", "-fvisibility=hidden", "-Wall", "-Wextra", "-g0"],
    )
    here = Path.cwd()
    os.chdir(root)
    try:
        command = build_ext(Distribution({"name": "latencytrace", "ext_modules": [core]}))
        command.inplace = True
        command.build_temp = f"build/{folder.as_posix()}"
        command.ensure_finalized()
        command.run()
        return Path(command.get_ext_fullpath(name)).resolve().relative_to(root.resolve())
    except Exception as error:  # noqa: BLE001 - whatever a compiler does: the package is whole without
        warnings.warn(f"latencytrace is installed without {name}: {error}", stacklevel=2)
        return None
    finally:
        os.chdir(here)
