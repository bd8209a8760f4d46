"""Small calls without copies: the kernels are given the host's memory itself, up to the size that is configured.

The CPU stands in for a device; the tests marked gpu are of one.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from engine_cases import EngineCase, assert_same
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.engine import calls as engine_calls
from traj_integrator_ros.engine import mapped
from traj_integrator_ros.engine import staged as engine_staged
from traj_integrator_ros.engine.buffers import Buffers
from traj_integrator_ros.engine.integrator import IntegratorConfig, StartState, TrajectoryIntegrator
from traj_integrator_ros.engine.packing import packed_size, packer
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def runner(mapped_bytes: int | None) -> StagedRunner:
    return StagedRunner(CPU, torch.float32, 4, mapped_bytes=mapped_bytes)


@settings(max_examples=40)
@given(kernel=st.sampled_from(list(MAPS)), start=st.sampled_from(["one row", "rows", "pool"]), batch=st.integers(1, 9))
def test_copied_and_mapped_calls_give_the_same(kernel, start, batch):
    case = EngineCase(kernel=kernel, start=start, batch=batch)
    expected = case.run(case.engine(runner(None)))
    assert_same(case.run(case.engine(runner(0))), expected, exact=True)


@pytest.fixture
def seen(monkeypatch) -> list[tuple[int, int]]:
    """Addresses of actions and results that forward kernels are given."""
    seen = []

    def forward(kernel, action, start, index, dt, out, *goal):
        seen.append((action.data_ptr(), out.data_ptr()))
        launch(kernel, action, start, index, dt, out, *goal)

    launch = engine_staged.launch_forward
    monkeypatch.setattr(engine_staged, "launch_forward", forward)
    return seen


def test_up_to_the_configured_size_of_inputs_and_results_kernels_get_the_memory_of_the_host(seen):
    case = EngineCase(batch=4)
    shape, out = (4, case.horizon, case.dof), 4 * 4 * 4 * case.horizon * case.dof
    inputs = {"actions": np.empty(shape), **dict.fromkeys("pva", np.empty((1, case.dof))), "dt": np.empty((1, 1))}
    moved = packed_size(inputs, torch.float32) + out
    for most, is_mapped in ((moved, True), (moved - 1, False)):
        seen.clear()
        staged = runner(most)
        engine = case.engine(staged)
        results = engine.integrate_array(*ones(case))
        ((action, place),) = seen
        assert (place == results.ctypes.data) is is_mapped
        on_host = staged._lanes[0].buffers.view("output", "inputs", (packed_size(inputs, torch.float32),), torch.uint8)
        assert (action == on_host.data_ptr()) is is_mapped


def ones(case: EngineCase) -> tuple[StartState, np.ndarray]:
    rows = np.ones((1, case.dof), np.float32)
    return StartState(rows, rows, rows), np.ones((case.batch, case.horizon, case.dof), np.float32)


def test_where_the_device_cannot_reach_the_memory_it_is_copied(monkeypatch, seen):
    monkeypatch.setattr("traj_integrator_ros.engine.packing.seen_by", lambda device, host: None)
    case = EngineCase()
    engine = case.engine(runner(None))
    assert_same(case.run(engine), case.run(case.engine()), exact=False)
    assert seen[0][1] != engine.integrate_array(*ones(case)).ctypes.data


@pytest.mark.parametrize("most", [0, sys.maxsize])
def test_what_the_engine_takes_to_the_device_by_itself_arrives_in_the_right_types(most):
    pack = packer(Buffers(CPU, torch.float32), CPU, torch.float32, most)
    given_values = {"actions": np.arange(6.0).reshape(2, 3), "start_index": np.array([1, 0]), "dt": np.array([[0.1]])}
    given_values["none"] = None
    given_values["tensor"] = torch.arange(3, dtype=torch.float64)
    found = pack(given_values)
    assert found["none"] is None
    kinds = {"actions": torch.float32, "start_index": torch.int64, "dt": torch.float64, "tensor": torch.float32}
    for name, dtype in kinds.items():
        assert found[name].dtype == dtype
        np.testing.assert_array_equal(
            found[name].numpy(), np.asarray(given_values[name]).astype(found[name].numpy().dtype)
        )


def shown(monkeypatch, moves: bool = False) -> None:
    """Torch makes tensors of the CPU from what it is told of a device's memory; `moves`: a copy."""

    def as_tensor(described: object, device: torch.device) -> torch.Tensor:
        array = np.asarray(SimpleNamespace(__array_interface__=described.__cuda_array_interface__))
        return torch.from_numpy(array.copy() if moves else array)

    monkeypatch.setattr(torch, "as_tensor", as_tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.uint8])
def test_a_device_is_shown_this_very_memory(dtype, monkeypatch):
    shown(monkeypatch)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    host = torch.arange(12, dtype=dtype).view(3, 4)
    tensor = mapped.seen_by(CUDA, host)
    assert (tensor.data_ptr(), tensor.shape, tensor.dtype) == (host.data_ptr(), host.shape, dtype)
    tensor[1, 2] = 77
    assert host[1, 2] == 77


def test_memory_that_is_not_the_devices_or_not_in_one_piece_is_not_shown(monkeypatch):
    host = torch.zeros(4, 6)
    assert mapped.seen_by(CUDA, host) is None  # not page-locked
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: True)
    assert mapped.seen_by(CUDA, host[:, :2]) is None
    assert mapped.seen_by(CPU, host[:, :2]) is None
    shown(monkeypatch, moves=True)  # as torch does for another device
    assert mapped.seen_by(CUDA, host) is None


@pytest.mark.parametrize("integrated", [False, True])
def test_devices_that_share_the_hosts_memory_copy_next_to_nothing(integrated, monkeypatch):
    properties = SimpleNamespace(is_integrated=integrated)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert mapped.most_mapped_bytes(CUDA) == (32 << 20 if integrated else 64 << 10)
    assert mapped.most_mapped_bytes(CPU) == sys.maxsize


def test_the_size_is_part_of_the_configuration(monkeypatch):
    monkeypatch.setattr(engine_calls, "default_backend", lambda device: None)  # the CPU as if it were a device
    engine = TrajectoryIntegrator(IntegratorConfig(dof=2, device="cpu", mapped_bytes=12345))
    assert engine._calls._runner._mapped_bytes == 12345
    assert engine.with_changes(dt=0.5)._calls._runner is engine._calls._runner
    assert engine.with_changes(mapped_bytes=0)._calls._runner._mapped_bytes == 0
    with pytest.raises(ValueError, match="mapped_bytes: expected at least 0, got -1"):
        IntegratorConfig(dof=2, mapped_bytes=-1)


@pytest.mark.gpu
@pytest.mark.parametrize("mapped_bytes", [0, 32 << 20])
@pytest.mark.parametrize("kernel", MAPS)
def test_calls_on_a_device_give_what_the_cpu_gives(kernel, mapped_bytes):
    for start in ("one row", "pool"):
        case = EngineCase(kernel=kernel, start=start)
        engine, on_cpu = case.engine(device="cuda", mapped_bytes=mapped_bytes), case.engine()
        for _ in range(3):  # eagerly, recorded, replayed
            assert_same(case.run(engine), case.run(on_cpu), exact=False)


@pytest.mark.gpu
@pytest.mark.parametrize(("mapped_bytes", "copies"), [(0, 4), (32 << 20, 0)])
def test_mapped_calls_on_a_device_copy_nothing(mapped_bytes, copies):
    case = EngineCase()
    engine = case.engine(device="cuda", mapped_bytes=mapped_bytes)
    for _ in range(3):
        case.run(engine)
    with torch.profiler.profile() as profile:
        case.run(engine)
    found = [event.name for event in profile.events() if event.name.startswith("Memcpy")]
    assert len(found) == copies, found
