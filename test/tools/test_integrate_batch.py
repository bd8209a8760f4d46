"""`integrate --batch-file`: the same numbers as in memory, in memory that does not grow with the batch."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tool_runs import Tool, command, environment

from traj_integrator_ros.engine.call import NO_ENDS, call_of, ends_of, step_lengths, time_from_start
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import ControlSpace, control_map
from traj_integrator_ros.motions.samples import QUANTITIES
from traj_integrator_ros.tools import integration_batch

BATCH, HORIZON, DOF = 23, 6, 3


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, np.ndarray]:
    """Actions and starts, in files of their names."""
    random = np.random.default_rng(0)
    found = {
        "actions": random.standard_normal((BATCH, HORIZON, DOF)),
        "starts": random.standard_normal((BATCH, DOF)),
        "goals": random.standard_normal((BATCH, DOF)),
    }
    for name, array in found.items():
        np.save(tmp_path / f"{name}.npy", array)
    return found


@pytest.mark.parametrize("control_space", ["position", "jerk", "bspline"])
def test_parts_of_a_batch_are_what_the_whole_is(
    tool: Tool, tmp_path: Path, arrays: dict[str, np.ndarray], control_space: str
) -> None:
    has_goal = control_space != "jerk"
    goal = ("--goal-position", "goals.npy") if has_goal else ()
    options = ("--control-space", control_space, "--start-position", "starts.npy", "--start-velocity", "1,0,-1", *goal)
    options += ("--dt", "0.05", "--part", "7", "--out", "out")
    told = tool("integrate", "actions.npy", "--batch-file", *options).told
    assert f"{BATCH} trajectories" in told and f"written: {Path('out/jerk.npy')}" in told
    kernel = control_map(ControlSpace[control_space.upper()])
    start = ends_of((arrays["starts"], np.broadcast_to([1.0, 0.0, -1.0], (BATCH, DOF)), None))
    goal = ends_of((arrays["goals"], None, None)[: len(kernel.goal)]) if has_goal else NO_ENDS
    expected = TrajectoryIntegrator("cpu", "float64").integrate(call_of(kernel, arrays["actions"], 0.05, start, goal))
    for name, values in zip(QUANTITIES, expected, strict=True):
        found = np.load(tmp_path / "out" / f"{name}.npy", mmap_mode="r")
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, values)
    time_s = np.load(tmp_path / "out" / "time.npy")
    np.testing.assert_array_equal(time_s, time_from_start(kernel, step_lengths(0.05), HORIZON))


def test_only_the_quantities_asked_for_are_written_in_the_dtype_of_the_file(tool: Tool, tmp_path: Path) -> None:
    np.save(tmp_path / "actions.npy", np.zeros((5, 4, 2), np.float32))
    run = ("integrate", "--batch-file", "actions.npy", "--out", "out", "--quiet", "--fields")
    assert tool(*run, "jerk,position", "--start-velocity", "1,0").told
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["jerk.npy", "position.npy", "time.npy"]
    assert np.load(tmp_path / "out" / "jerk.npy").dtype == np.float32
    assert f"left unchanged: {Path('out/jerk.npy')}" in tool(*run, "position").told


def npy(array: np.ndarray) -> bytes:
    """The contents of a file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


ZEROS = npy(np.zeros((4, 3, 2)))


@pytest.mark.parametrize(
    ("actions", "options", "message"),
    [
        (npy(np.zeros((4, 2))), (), r"actions.npy: expected actions of shape \[B, Ha, D\], got \[4, 2\]"),
        (npy(np.zeros((4, 3, 2), np.int64)), (), "actions.npy: expected float32 or float64 .*, got <i8"),
        (npy(np.asfortranarray(np.zeros((4, 3, 2)))), (), r"actions.npy: expected the last axis to be the fastest"),
        (ZEROS[:-1], (), r"actions.npy: expected an NPY array, got something else .*: is it complete\?"),
        (npy(np.full((4, 3, 2), np.nan)), (), r"actions: expected finite numbers, got nan at \[0, 0, 0\]"),
        (ZEROS, ("--start-position", "1,2,3"), r"--start-position: expected \[1, 2\] or \[4, 2\], got"),
        (ZEROS, ("--goal-velocity", "1,2"), "goal_velocity: expected none, because control space"),
        (ZEROS, ("--steps", "2"), "--steps: expected with --control-space bspline only, got position"),
        (ZEROS, ("--fields", "positions"), "--fields: expected some of position,.*, got positions"),
        (ZEROS, ("--plot", "x.png"), "--plot: expected without --batch-file"),
    ],
    ids=["shape", "dtype", "order", "cut off", "nan", "start", "goal", "form", "fields", "plot"],
)
def test_what_does_not_fit_is_said_in_one_line_and_nothing_is_written(
    tool: Tool, tmp_path: Path, actions: bytes, options: tuple[str, ...], message: str
) -> None:
    (tmp_path / "actions.npy").write_bytes(actions)
    result = tool("integrate", "actions.npy", "--batch-file", "--out", "out", "--quiet", *options)
    assert result.returncode == 2
    assert re.search(message, result.stderr) and result.stderr.count("\n") == 1
    assert not list(tmp_path.glob("out/*"))


def test_a_disk_too_small_is_said_before_the_work(
    tool: Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict[str, np.ndarray]
) -> None:
    full = SimpleNamespace(disk_usage=lambda path: shutil._ntuple_diskusage(10, 10, 0))
    monkeypatch.setattr(integration_batch, "shutil", full)
    result = tool("integrate", "actions.npy", "--batch-file", "--out", "out")
    assert result.returncode == 2
    assert re.search(r"--out: expected 0\.\d+ GB of free space in .*, got 0.00 GB", result.stderr)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("out/position.npy",), "FILE"),
        (("actions.npy", "--start-velocity", "out/velocity.npy"), "--start-velocity"),
    ],
)
def test_results_never_replace_what_they_are_computed_from(
    tool: Tool, tmp_path: Path, arrays: dict[str, np.ndarray], arguments: tuple[str, ...], given: str
) -> None:
    file = tmp_path / arguments[-1]
    file.parent.mkdir()
    np.save(file, values := arrays["actions" if given == "FILE" else "starts"])
    result = tool("integrate", *arguments, "--batch-file", "--out", "out")
    assert result.returncode == 2 and f"--out: expected another folder than that of {given}" in result.stderr
    np.testing.assert_array_equal(np.load(file), values)


def test_memory_stays_bounded_and_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    shape = (1_000_000, 32, 7)  # 0.9 GB
    if shutil.disk_usage(tmp_path).free < 2e9:
        pytest.skip("less than 2 GB of free space")
    np.lib.format.open_memmap(tmp_path / "actions.npy", "w+", np.float32, shape)  # a hole: takes no room on the disk
    options = ("--batch-file", "--fields", "position", "--out", "out", "--quiet")
    arguments = command("integrate", "actions.npy", *options, python=sys.executable)  # whose memory is looked at
    process = subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE)
    part = tmp_path / "out" / "position.npy.part"

    def peak_bytes_when_written(size: float) -> int:
        deadline = time.monotonic() + 60
        while not (part.exists() and part.stat().st_size >= size):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.002)
        return 1024 * int(re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1])

    first = peak_bytes_when_written(10e6)
    grown = peak_bytes_when_written(120e6) - first
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"interrupted after" in output and b"nothing was written" in output
    assert not list((tmp_path / "out").iterdir())
    assert grown < 50e6
