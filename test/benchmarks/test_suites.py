"""Every case of the suites gives right results, also those timed on a CUDA device only."""

from __future__ import annotations

import pytest
import torch

from benchmarks.problems import clique_problem
from benchmarks.suites import cpu, cuda, engine, execution, scaling
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, SplineForm, default_backend


def check(case) -> int:
    """Run and check every contender once; how many there were."""
    for contender in case.contenders:
        contender.check(contender.run())
        result = contender.run()
        if "empty" not in contender.name:
            with pytest.raises(AssertionError):
                contender.check(spoiled(result))
    return len(case.contenders)


def spoiled(result):
    """The same with a wrong number in it."""
    if isinstance(result, (list, tuple)):
        return [*result[:-1], spoiled(result[-1])]
    return 1.01 * result + 1


@pytest.fixture
def native():
    if default_backend(torch.device("cpu")).value != "native":
        pytest.skip("the C++ kernels are not built")


def test_entries_and_engine_are_right(native):
    assert [check(case) for case in (cpu.entries(3), *engine.both_ways(3), engine.times())] == [5, 3, 3, 2]
    problems = (clique_problem(3), None), (cpu.spline_problem(3), SplineForm())
    assert [check(cpu.reused_buffers("", *each)) for each in problems] == [2, 2]


@pytest.mark.parametrize("way", cpu.GRADIENTS)
def test_ways_to_differentiate_are_right(way):
    case = cpu.forward_and_backward(100, way, with_compiled=False)
    assert [check(case), check(cpu.dropin(3, way))] == [4, 3]


@pytest.mark.parametrize("name", [name for name in MAPS if not name.startswith("bspline")])
def test_maps_are_right_beside_operations_of_torch(name):
    assert check(cpu.against_torch(name, 3)) == 3


@pytest.mark.parametrize("name", ["clique", "clique_central", "acceleration_zoh"])
def test_scaling_cases_are_right(name):
    case = scaling.on_cpu((name, 60, 12, 3), peak=10**6)
    assert check(case) == 2
    assert case.memory.floor_bytes == scaling.floor_bytes(name, 60, 12, 3)


def test_sizes_of_scaling_cover_what_is_asked_for():
    batches, horizons, dofs = (sorted(set(axis)) for axis in zip(*scaling.sizes(quick=False), strict=True))
    assert (batches[0], batches[-1], horizons[0], horizons[-1], dofs[0], dofs[-1]) == (1, 100_000, 4, 4096, 1, 64)
    assert set(scaling.sizes(quick=True)) < set(scaling.sizes(quick=False))


def test_the_picture_is_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(scaling, "PICTURE", tmp_path / "build" / "scaling.png")
    shapes = [(1, 32, 7), (1000, 32, 7), (100, 4, 7), (1000, 32, 64)]
    scaling.draw([{"case": "c", "B": b, "H": h, "D": d, "ours_us": b * h, "limit_us": h * d} for b, h, d in shapes])
    assert scaling.PICTURE.read_bytes().startswith(b"\x89PNG")


def test_cases_of_the_device_are_right_on_the_cpu_too(monkeypatch):
    monkeypatch.setattr(cuda, "DEVICE", "cpu")
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    assert [check(cuda.swept(name, 60)) for name in ("clique", "clique_central", "bspline_tight")] == [3, 3, 3]
    assert check(cuda.against_peers(60)) == 6
    assert check(cuda.between_host_arrays(3, {device: TrajectoryIntegrator(device) for device in ("cpu", "auto")})) == 2


@pytest.mark.gpu
def test_graphs_of_the_device_are_right():
    assert check(cuda.swept("clique", cuda.SMALL_BATCH)) == 3
    assert cuda.most_elements() > 1 << 20


def test_execution_cases_are_right():
    assert [check(case) for case in (execution.spline(16), *execution.sequence_to_trajectory(16))] == [2, 2, 2, 2]


@pytest.mark.ros
def test_all_ways_to_make_and_read_messages_give_the_same():
    from benchmarks.ros.messages import messages

    cases = list(messages(quick=True))
    assert len(cases) == 11
    for case in cases:
        for contender in case.contenders:
            contender.check(contender.run())
