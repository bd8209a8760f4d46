"""Running a tool as a user does, and motions to run it on."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from recordings import write_table
from tool_runs import JOINTS, Result, Tool

from traj_integrator_ros.motions.samples import Nature, Samples, samples_of

MODULES = {"demo": "demo.main"}


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Tool]:
    """A function that runs a tool, or the demo, with arguments in an empty folder and this process, which has torch."""
    monkeypatch.chdir(tmp_path)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def run(name: str, *arguments: object) -> Result:
        module = importlib.import_module(f"traj_integrator_ros.{MODULES.get(name, f'tools.{name}')}")
        capsys.readouterr()
        try:
            code = module.main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        return Result(code, *capsys.readouterr())

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def quadratic() -> Samples:
    """Two joints at constant acceleration from a moving start, 31 samples, 0.02 s apart."""
    time = np.arange(31) * 0.02
    begin, rate, acceleration = np.array([[1.0, -1.0], [0.2, 0.4], [0.5, -0.3]])
    velocity = rate + acceleration * time[:, None]
    position = begin + (rate + velocity) / 2 * time[:, None]
    quantities = position, velocity, acceleration + 0 * position, 0 * position
    return samples_of("made up", JOINTS, time, quantities, "test", Nature.EXACT)


@pytest.fixture
def table(tmp_path: Path, quadratic: Samples) -> Path:
    """The motion as CSV, without jerk."""
    return write_table(tmp_path / "motion.csv", quadratic, ("position", "velocity", "acceleration"))
