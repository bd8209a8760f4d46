"""Peaks of memory, measured where no other test changes how soon the system takes pages back."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.suites.scaling import floor_bytes, measure_peaks


@pytest.mark.alone
def test_peaks_are_measured_in_another_process() -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("no /proc/self/clear_refs")
    shapes = [("clique", 5000, 32, 7), ("jerk", 20, 4096, 10)]
    for shape, peak in measure_peaks(shapes).items():
        assert 0.9 < peak / floor_bytes(*shape) < 1.2
