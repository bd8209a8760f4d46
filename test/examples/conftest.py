"""The fixtures are those of test/node."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test" / "node"), str(ROOT / "examples" / "lerobot")]
