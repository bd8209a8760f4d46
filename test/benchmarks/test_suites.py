"""Every case of the suites gives right results, also those timed on a CUDA device only; counts are counted right."""

from __future__ import annotations

import pytest
import torch

from benchmarks import __main__ as program
from benchmarks import registry, report
from benchmarks.suites import cuda_kernels, engine, execution, scaling
from traj_integrator_ros.kernels import default_backend


def check(case) -> int:
    """Run and check every contender once; how many there were."""
    contenders = [case.ours, *case.peers, *([case.limit] if case.limit else [])]
    for contender in contenders:
        contender.check(contender.run())
        result = contender.run()
        with pytest.raises(AssertionError):
            contender.check(spoiled(result))
    return len(contenders)


def spoiled(result):
    """The same with a wrong number in it."""
    if isinstance(result, (list, tuple)):
        return [*result[:-1], spoiled(result[-1])]
    return 1.01 * result + 1


def test_engine_cases_are_right():
    if default_backend(torch.device("cpu")).value != "native":
        pytest.skip("the C++ kernels are not built")
    assert [check(case) for case in (*engine.both_ways(3), engine.times())] == [3, 3, 2]


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
    scaling.finish([{"case": "c", "B": b, "H": h, "D": d, "ours_us": b * h, "limit_us": h * d} for b, h, d in shapes])
    assert scaling.PICTURE.read_bytes().startswith(b"\x89PNG")


@pytest.fixture
def on_the_cpu(monkeypatch) -> object:
    """The suites of the device with their cases on the CPU, small."""

    monkeypatch.setattr(cuda_kernels, "DEVICE", "cpu")
    monkeypatch.setattr(cuda_kernels, "HORIZON", 8)
    return cuda_kernels


@pytest.mark.parametrize("name", ["clique", "clique_central", "acceleration_zoh", "jerk"])
def test_cases_of_the_device_are_right_on_the_cpu_too(name, on_the_cpu):
    assert check(on_the_cpu.swept(name, 60)) == 3


def test_peers_of_the_device_are_right_on_the_cpu_too(on_the_cpu, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    assert check(on_the_cpu.against_peers(60 * 8 * 7)) == 6
    assert check(on_the_cpu.between_host_arrays(3, on_the_cpu.engines_of(("cpu", "auto")))) == 2


@pytest.mark.gpu
def test_graphs_of_the_device_are_right():
    assert check(cuda_kernels.swept("clique", cuda_kernels.SMALL_BATCH)) == 4
    assert cuda_kernels.most_elements() > 1 << 20


def test_without_a_device_the_suite_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rows, wrong = program.run("cuda_kernels", {}, quick=True)
    assert not wrong
    assert "unmeasured: no CUDA device" in capsys.readouterr().out
    assert [row["unmeasured"] for row in rows] == ["no CUDA device"] and report.missed(rows) == []


def test_a_loss_is_measured_again_before_it_counts(monkeypatch):
    ratios = iter([1.0, 9.0, 1.0, 1.0, 1.0])
    measured = []

    def measure(suite: str, case: object, *, quick: bool):
        row = {"suite": suite, "case": "c", "B": 1, "peer": "p", "ratio": next(ratios), "of_limit": None}
        measured.append(row)
        return [row], []

    monkeypatch.setattr(program, "measure", measure)
    monkeypatch.setattr(report, "table", lambda rows, heads: "")
    monkeypatch.setitem(registry.SUITES, "one", lambda quick: iter([object()]))
    kept = {report.key({"case": "c", "B": 1, "peer": "p"}): {"ratio": 10.0}}
    rows, _ = program.run("one", kept, quick=True)
    assert rows[0]["ratio"] == 9.0 and len(measured) == 2, "the second time it was as fast as before"
    rows, _ = program.run("one", kept, quick=True)
    assert rows[0]["ratio"] == 1.0 and len(measured) == 5
    assert program.slower(rows, kept)


def test_execution_cases_are_right():
    assert [check(case) for case in (execution.spline(16), *execution.sequence_to_trajectory(16))] == [2, 2, 2, 2]
