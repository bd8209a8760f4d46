"""Every case of the suites gives right results, also those timed on a CUDA device only; counts are counted right."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def on_path(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(project_root))


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
    from benchmarks.suites.engine import both_ways, times
    from traj_integrator_ros.kernels import default_backend

    if default_backend(__import__("torch").device("cpu")).value != "native":
        pytest.skip("the C++ kernels are not built")
    assert [check(case) for case in (*both_ways(3), times())] == [3, 3, 2]


@pytest.mark.parametrize("name", ["clique", "clique_central", "acceleration_zoh"])
def test_scaling_cases_are_right(name):
    from benchmarks.suites import scaling

    case = scaling.on_cpu((name, 60, 12, 3), peak=10**6)
    assert check(case) == 2
    assert case.memory.floor_bytes == scaling.floor_bytes(name, 60, 12, 3)


def test_sizes_of_scaling_cover_what_is_asked_for():
    from benchmarks.suites.scaling import sizes

    batches, horizons, dofs = (sorted(set(axis)) for axis in zip(*sizes(quick=False), strict=True))
    assert (batches[0], batches[-1], horizons[0], horizons[-1], dofs[0], dofs[-1]) == (1, 100_000, 4, 4096, 1, 64)
    assert set(sizes(quick=True)) < set(sizes(quick=False))


def test_the_fit_finds_overhead_and_rate(capsys):
    from benchmarks.fit import annotate, moved_bytes

    rows = [{"case": "c", "device": "cpu", "B": batch, "H": 100, "D": 10} for batch in (1, 100, 1000, 10_000)]
    for row in rows:
        row["ours_us"] = 7.0 + (moved_bytes(row) / 2000 if row["B"] > 1 else 0)
    rows[2]["ours_us"] *= 3
    annotate(rows)
    assert [row["of_fit"] for row in rows[1:]] == [pytest.approx(x, rel=0.01) for x in (1, 3, 1)]
    assert "2.0 GB/s" in capsys.readouterr().out


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.drawing import draw_scaling

    shapes = [(1, 32, 7), (1000, 32, 7), (100, 4, 7), (1000, 32, 64)]
    rows = [
        {"case": "c", "device": "cpu", "B": b, "H": h, "D": d, "ours_us": b * h * d, "limit_us": b * h * d / 2}
        for b, h, d in shapes
    ]
    draw_scaling(rows, tmp_path / "build" / "scaling.png")
    assert (tmp_path / "build" / "scaling.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["clique", "clique_central", "acceleration_zoh", "jerk"])
def test_cases_of_the_device_are_right_on_the_cpu_too(name, monkeypatch):
    from benchmarks.suites import cuda_kernels

    monkeypatch.setattr(cuda_kernels, "DEVICE", "cpu")
    monkeypatch.setattr(cuda_kernels, "HORIZON", 8)
    monkeypatch.setattr(cuda_kernels, "most_elements", lambda: 60 * 8 * 7)
    assert [check(case) for case in cuda_kernels.at_full_size(name, quick=True)] == [2, 2]


def test_peers_of_the_device_are_right_on_the_cpu_too(monkeypatch):
    import torch

    from benchmarks.suites import cuda_kernels

    monkeypatch.setattr(cuda_kernels, "DEVICE", "cpu")
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    cuda_kernels.matrices.cache_clear()
    # Its kernels have the signature of our drop-in ones.
    monkeypatch.setattr(cuda_kernels, "CUROBO", "traj_integrator_ros.kernels.integration_utils")
    assert check(cuda_kernels.against_peers(60 * 32 * 7)) == 7
    cuda_kernels.matrices.cache_clear()


@pytest.mark.gpu
def test_graphs_and_launches_of_the_device_are_right():
    from benchmarks.suites import cuda_kernels, scaling

    assert check(cuda_kernels.call_overhead()) == 2
    case = dataclasses.replace(cuda_kernels.replayed(), peers=())
    case.ours.check(case.ours.run())
    assert check(scaling.on_cuda(("clique", 60, 12, 3))) == 2


def test_without_a_device_the_suite_says_so(monkeypatch, capsys):
    import torch

    from benchmarks import __main__ as program
    from benchmarks import report

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rows, wrong = program.run("cuda_kernels", {}, quick=True)
    assert not wrong
    assert "unmeasured: no CUDA device" in capsys.readouterr().out
    assert [row["unmeasured"] for row in rows] == ["no CUDA device"] and report.missed(rows) == []


# Registers, shared bytes and warps of a program; programs on a multiprocessor of sm_90 by hand.
@pytest.mark.parametrize(
    ("registers", "shared", "warps", "programs"),
    [
        (32, 0, 8, 8),  # 64 warps
        (64, 0, 8, 4),
        (128, 2048, 8, 2),
        (152, 2048, 8, 1),
        (152, 2048, 4, 3),
        (255, 0, 8, 1),
        (24, 0, 1, 32),  # most programs
        (32, 100 << 10, 4, 2),  # shared memory
    ],
)
def test_programs_on_a_multiprocessor(registers, shared, warps, programs):
    from benchmarks.triton_accounting.occupancy import occupancy, resident_programs, share_by_loads

    assert resident_programs(90, registers, shared, warps) == programs
    assert occupancy(90, programs, warps) == programs * warps / 64
    assert share_by_loads(90, 1e9, 0.2) == 1.0
    assert share_by_loads(90, 4800 / 132 * 700 * 0.2 / 2, 0.2) == pytest.approx(0.5)


def test_the_kept_count_has_room_for_nine_tenths_of_the_bandwidth():
    """Of a float32 pass by issue slots, with a step length for each step, too, on all GPUs that are counted but one.

    A B200 has room for 97 instructions an element only.
    """
    from benchmarks.triton_accounting.occupancy import room_for
    from benchmarks.triton_accounting.table import OLDEST_TRITON, load, table

    rows = [row for row in load() if "sm" in row and row["triton"] != OLDEST_TRITON]
    usual = [row for row in rows if re.search("float32 .* D7", row["launch"]) and "instructions" in row]
    usual = [row for row in usual if not row["launch"].startswith("bspline")]
    assert {row["bytes_per_element"] for row in usual} == {20}
    usual = [row for row in usual if "dt_gradient" not in row["kernel"]]  # a third pass, which few ask for
    over = {(row["kernel"], row["sm"]) for row in usual if row["instructions"] > room_for(row["sm"], 20)}
    assert {sm for _, sm in over} == {100}
    assert "H200" in table(rows)


def test_instructions_loads_and_waits_are_counted_from_a_listing():
    from benchmarks.triton_accounting import machine_code

    listing = """
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E R4, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E R5, desc[UR4][R2.64+0x400] ;
        /*0030*/                   FADD R6, R4, R5 ;
        /*0040*/                   LDG.E R7, desc[UR4][R2.64+0x800] ;
        /*0050*/                   DADD R8, R8, R10 ;
        /*0060*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0070*/                   STG.E desc[UR4][R2.64], R7 ;
        /*0080*/               @P1 EXIT ;
        /*0090*/                   EXIT ;
        /*00a0*/                   BRA 0xa0;
        /*00b0*/                   NOP ;
    """
    counted = machine_code._count(machine_code._main_path(listing), registers=12, spilled=0)
    assert counted == machine_code.MachineCode(10, 1, 3, 2, 1, 12, 0)


def test_all_that_only_a_gpu_can_show_runs_in_the_interpreter(project_root, tmp_path):
    import os
    import subprocess
    import sys

    pytest.importorskip("triton")
    command = [sys.executable, "-m", "benchmarks.gpu", "--dry", "--out", str(tmp_path)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, cwd=project_root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    for part in ("sweep", "engine", "peers"):
        assert json.loads((tmp_path / f"{part}.json").read_text(encoding="utf-8"))["rows"]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_calls_of_compiled_kernels_go_past_python_to_the_stub_driver(project_root):
    """The recorded data of Triton's machine code, under the names of any version, suffices to launch it again."""
    import subprocess
    import sys

    pytest.importorskip("traj_integrator_ros.kernels.native", exc_type=ImportError)
    done = subprocess.run(
        [sys.executable, "-c", CALL_TWICE], cwd=project_root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["2", "2", "2"]


CALL_TWICE = """
import torch
from benchmarks.stub_driver import replays, stub_driver
from traj_integrator_ros.kernels import velocity_step
from traj_integrator_ros.kernels.triton import scan

started = []
run = scan.run
scan.run = lambda *arguments, **options: (started.append(1), run(*arguments, **options))
action, start = torch.ones(1, 8, 2, requires_grad=True), torch.ones(1, 2)
with stub_driver(), replays():
    for _ in range(3):
        outputs = velocity_step(action, start, dt=0.1)
        torch.autograd.grad(outputs, action, [torch.ones(1, 8, 2)] * 4)
        print(len(started))
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_the_kept_count_is_that_of_the_launchers_as_they_are(project_root):
    """Warps and register bounds that have changed since would make it say what is not so."""
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", PRINT_OPTIONS], cwd=project_root, capture_output=True, text=True, check=True
    )
    kept = json.loads((project_root / "benchmarks/results/triton_kernels.json").read_text(encoding="utf-8"))
    wanted = {tuple(entry) for entry in json.loads(done.stdout)}
    kept = [row for row in kept if "sm" in row and " float32 " in row["launch"]]
    found = {(row["launch"], row["kernel"], row["num_warps"], row.get("maxnreg")) for row in kept}
    assert found <= wanted
    assert {entry[1] for entry in wanted} == {entry[1] for entry in found}


PRINT_OPTIONS = """
import json
from benchmarks.triton_accounting.compilation import record
from benchmarks.triton_accounting.launches import KEPT_LAUNCHES, LAUNCHES
print(json.dumps([
    (name, recorded.kernel.fn.__name__, recorded.options["num_warps"], recorded.options.get("maxnreg"))
    for name in KEPT_LAUNCHES for recorded in record(name, LAUNCHES[name])
]))
"""


def test_a_loss_is_measured_again_before_it_counts(monkeypatch):
    from benchmarks import __main__ as program
    from benchmarks import registry, report

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
    from benchmarks.suites.execution import sequence_to_trajectory, steps_to_the_message

    assert [check(case) for case in steps_to_the_message(16)] == [2, 2, 1, 1, 1, 1]
    assert [check(case) for case in sequence_to_trajectory(16)] == [2, 2, 2]
