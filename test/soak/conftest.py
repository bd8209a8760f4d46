"""The soak is a tool of the repository, not of the package: it is imported from the source tree."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
