"""Whether the C++ kernels are built: they lie in the checkout, one build for each Python, whatever environment."""

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
FLAGS = ("CXX", "CXXFLAGS", "CPPFLAGS", "CFLAGS", "LDFLAGS", "TRAJ_INTEGRATOR_NATIVE")


@dataclass(frozen=True)
class NativeBuild:
    """The extension module for this Python, and the stamp that says of what it was built."""

    module: Path
    stamp: Path
    fingerprint: str

    @classmethod
    def of(cls, torch: str) -> NativeBuild:
        """The build against a torch."""
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        flags = (os.environ.get(name, "") for name in FLAGS)
        fingerprint = hashed([sys.version, torch, *flags, ROOT / "setup.py", *native_sources()])
        return cls(NATIVE / f"_C{suffix}", ROOT / "build" / "native" / f"built{suffix}", fingerprint)

    @property
    def is_up_to_date(self) -> bool:
        """Whether it is there, of just this."""
        stamped = self.stamp.read_text(encoding="utf-8") if self.stamp.is_file() else ""
        return self.module.is_file() and stamped == self.fingerprint

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Takes the old module away while a new one is built; one that cannot be built leaves none."""
        self.module.unlink(missing_ok=True)
        yield
        if self.module.is_file():
            write_at_once(self.stamp, self.fingerprint)


def native_sources() -> list[Path]:
    """What is compiled."""
    return sorted(path for path in NATIVE.rglob("*") if path.suffix in (".cpp", ".h", ".inc"))
