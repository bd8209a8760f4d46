"""Whether the C++ parts are built: in the checkout, one build for each Python, shared by its environments."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from files import hashed, write_at_once

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "kernels" / "native"
PLAIN = (ROOT / "traj_integrator_ros" / "execution", ROOT / "kernels" / "retime")
FLAGS = ("CXX", "CXXFLAGS", "CPPFLAGS", "CFLAGS", "LDFLAGS", "TRAJ_INTEGRATOR_NATIVE")


@dataclass(frozen=True)
class NativeBuild:
    """The extension modules for this Python, and the stamp with a hash of what they were built from."""

    modules: tuple[Path, ...]
    stamp: Path
    fingerprint: str

    @classmethod
    def of(cls, torch: str) -> NativeBuild:
        """The build against a torch."""
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        flags = (os.environ.get(name, "") for name in FLAGS)
        fingerprint = hashed([sys.version, torch, *flags, ROOT / "setup.py", *native_sources()])
        modules = NATIVE / f"_C{suffix}", *(folder / f"_native{suffix}" for folder in PLAIN)
        return cls(modules, ROOT / "build" / "native" / f"built{suffix}", fingerprint)

    @property
    def is_up_to_date(self) -> bool:
        """Whether the modules exist and were built from the present sources, torch and Python."""
        stamped = self.stamp.read_text(encoding="utf-8") if self.stamp.is_file() else ""
        return self._are_there and stamped == self.fingerprint

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Removes the old modules while new ones are built; if the build fails, there are none."""
        for module in self.modules:
            module.unlink(missing_ok=True)
        yield
        if self._are_there:
            write_at_once(self.stamp, self.fingerprint)

    @property
    def _are_there(self) -> bool:
        return all(module.is_file() for module in self.modules)


def native_sources() -> list[Path]:
    """What is compiled."""
    folders = NATIVE, *(folder / "src" for folder in PLAIN)
    return sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in (".cpp", ".h", ".inc"))
