"""A batch that does not fit on the device is computed in parts, with the same results."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from engine_cases import EngineCase, assert_same, engine_cases, engine_on
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.engine import evaluation
from traj_integrator_ros.engine.call import Call, Runner
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.runners import Buffers, OutOfDeviceMemory
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS


class SmallDevice:
    """A runner that holds at most so many trajectories at a time."""

    def __init__(self, runner: Runner, most: int) -> None:
        self.runner = runner
        self.most = most
        self.tried: list[int] = []
        self.released = 0

    def run(self, call: Call) -> None:
        self.tried.append(call.shape[0])
        if call.shape[0] > self.most:
            raise torch.OutOfMemoryError(f"no room for {call.shape[0]} trajectories")
        self.runner.run(call)

    def release(self) -> None:
        self.released += 1
        self.runner.release()


def staged() -> StagedRunner:
    return StagedRunner(torch.device("cpu"), torch.float32, max_graphs=4)


def default() -> Runner:
    return TrajectoryIntegrator("cpu")._runner


@settings(max_examples=120)
@given(case=engine_cases(), most=st.integers(1, 4), make=st.sampled_from([staged, default]))
def test_parts_give_what_the_whole_gives(case, most, make):
    whole = case.run()
    parts = case.run(engine_on(SmallDevice(make(), most)))
    assert_same(parts[:5], whole[:5], exact=make is default)
    assert_same(parts[5:], whole[5:], exact=False)


@settings(max_examples=40)
@given(case=engine_cases(input_dtype="float32"), most=st.integers(1, 4))
def test_the_gradient_of_dt_in_parts_is_that_of_the_whole(case, most):
    whole = case.run(want_dt=True)
    to_device = evaluation.to_device

    def small(inputs, *where):
        if inputs["actions"].shape[0] > most:
            raise torch.OutOfMemoryError("no room")
        return to_device(inputs, *where)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "to_device", small)
        parts = case.run(want_dt=True)
    assert_same(parts, whole, exact=False)


def test_a_device_short_of_memory_does_large_batches_in_parts(monkeypatch):
    case = EngineCase(MAPS["acceleration_zoh"], batch=64, horizon=8, dof=7, start="pool", dt="[B, H]")
    whole, allocate, sizes = case.run(), Buffers._allocate, []

    def limited(self: Buffers, side: str, size: int, dtype: torch.dtype) -> torch.Tensor:
        if side == "input":
            sizes.append(size * dtype.itemsize)
            if sizes[-1] > 6000:
                raise torch.OutOfMemoryError(f"tried to allocate {sizes[-1]} bytes")
        return allocate(self, side, size, dtype)

    monkeypatch.setattr(Buffers, "_allocate", limited)
    assert_same(case.run(engine_on(staged())), whole, exact=False)
    assert max(sizes) > 6000, "the whole was tried, and refused"


def test_what_fits_is_remembered_until_the_engine_is_closed():
    device = SmallDevice(default(), most=10)
    case = EngineCase(batch=64)
    engine = engine_on(device)
    case.run(engine)
    assert device.tried[:3] == [64, 32, 16] and device.released == 6
    device.tried.clear()
    case.run(engine)
    assert max(device.tried) <= 10 and sum(device.tried) == 2 * 64
    engine.close()
    device.tried.clear()
    case.run(engine)
    assert device.tried[0] == 64


@pytest.mark.parametrize("make", [staged, default])
def test_a_trajectory_that_does_not_fit_is_an_error_and_work_goes_on(make):
    device = SmallDevice(make(), most=0)
    engine, case = engine_on(device), EngineCase(batch=4)
    with pytest.raises(OutOfDeviceMemory, match="out of memory on cpu: no room for 1 trajectories"):
        case.run(engine)
    device.most = 4
    assert_same(case.run(engine), case.run(), exact=False)


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    device = SmallDevice(mock.Mock(run=mock.Mock(side_effect=RuntimeError("broken"))), most=9)
    with pytest.raises(RuntimeError, match="broken"):
        EngineCase().run(engine_on(device))
    assert not device.released
