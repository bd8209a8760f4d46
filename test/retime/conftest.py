"""Paths and judgements that the benchmarks use, too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
sys.path.append(str(Path(__file__).resolve().parents[2]))
