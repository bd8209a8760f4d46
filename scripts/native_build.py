"""Whether the C++ parts are built: in the checkout, one build for every Python and torch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from files import hashed, write_at_once

ROOT = Path(__file__).resolve().parent.parent
MODULES = {
    ROOT / "kernels" / "native": "_loops",
    ROOT / "kernels" / "retime": "_native",
    ROOT / "traj_integrator_ros" / "execution": "_native",
}
"""Folders with C++, and the modules that are made of it."""
FLAGS = ("CXX", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "TRAJ_INTEGRATOR_NATIVE")


@dataclass(frozen=True)
class NativeBuild:
    """The extension modules, and the stamp with a hash of what they were built from."""

    modules: tuple[Path, ...]
    stamp: Path
    fingerprint: str

    @classmethod
    def of_checkout(cls) -> NativeBuild:
        """The build of the present sources."""
        flags = (os.environ.get(name, "") for name in FLAGS)
        fingerprint = hashed([*flags, ROOT / "setup.py", *native_sources()])
        modules = tuple(folder / f"{name}.abi3.so" for folder, name in MODULES.items())
        return cls(modules, ROOT / "build" / "native" / "built", fingerprint)

    @property
    def is_up_to_date(self) -> bool:
        """Whether the modules exist and were built from the present sources."""
        stamped = self.stamp.read_text(encoding="utf-8") if self.stamp.is_file() else ""
        return self._are_there and stamped == self.fingerprint

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Removes the old modules while new ones are built; if the build fails, there are none."""
        for folder, name in MODULES.items():
            for module in folder.glob(f"{name}.*so"):  # also one for this Python alone, which would be preferred
                module.unlink()
        yield
        if self._are_there:
            write_at_once(self.stamp, self.fingerprint)

    @property
    def _are_there(self) -> bool:
        return all(module.is_file() for module in self.modules)


def native_sources() -> list[Path]:
    """What is compiled."""
    return sorted(path for folder in MODULES for path in folder.rglob("*") if path.suffix in (".cpp", ".h", ".inc"))
