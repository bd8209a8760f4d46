"""The runner of devices: right results, the rules of CUDA kept, one recording for each kind of call.

A stand-in for CUDA raises an error where a real device gives wrong numbers; the tests marked gpu use a real one.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import threading
from unittest import mock

import numpy as np
import pytest
import torch
from engine_cases import EngineCase, assert_same, engine_cases
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.fake_cuda import DeviceFault, FakeCuda, devices_of_loops
from traj_integrator_ros.engine import staged
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS, Backend, default_backend
from traj_integrator_ros.kernels.backends import launcher

loops = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)


def again(case: EngineCase) -> list[EngineCase]:
    """The same kind of call three times, with different numbers."""
    return [dataclasses.replace(case, seed=seed) for seed in (1, 2, 3)]


STEP = st.tuples(engine_cases(), st.sampled_from(("call", "call", "call", "error", "close")))


@loops
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=1, max_size=5), st.integers(1, 3), st.sampled_from(("cuda", "cuda:1")))
def test_any_sequence_of_calls_keeps_the_rules_and_gives_the_right_numbers(steps, times, device):
    wanted = [case.run() for case, _ in steps]
    with devices_of_loops(2) as cuda:
        engine = TrajectoryIntegrator(device, max_graphs=3)
        for _ in range(times):
            follow(engine, steps, wanted)
        assert engine._runner._recorder is not None, "no capture failed"
        assert cuda.launches >= times * len(steps)


def follow(engine: TrajectoryIntegrator, steps: list[tuple[EngineCase, str]], wanted: list) -> None:
    for (case, what), right in zip(steps, wanted, strict=True):
        if what == "close":
            engine.close()
        if what == "error":
            call = case.call()
            with pytest.raises((ValueError, RuntimeError, TypeError)):
                engine.integrate(call._replace(actions=np.zeros((2, 2), np.complex64)))
        assert_same(case.run(engine), right)


@loops
def test_two_threads_with_engines_of_their_own_do_not_disturb_each_other():
    cases = [EngineCase(batch=batch, start=start) for batch in (3, 8, 2) for start in ("one", "own")]
    wanted, errors = [case.run() for case in cases], []

    def run(cuda: FakeCuda, device: str) -> None:
        try:
            with cuda.entered():
                engine = TrajectoryIntegrator(device, max_graphs=2)
                for _ in range(4):
                    follow(engine, [(case, "call") for case in cases], wanted)
        except BaseException as error:
            errors.append(error)

    with devices_of_loops(2) as cuda:
        threads = [threading.Thread(target=run, args=(cuda, f"cuda:{k}")) for k in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors


@loops
def test_recorded_calls_move_their_inputs_and_results_and_no_more():
    case = EngineCase(MAPS["jerk"], batch=64, horizon=16, dof=7)
    with devices_of_loops(2) as cuda:
        engine = TrajectoryIntegrator("cuda")
        for _ in range(3):
            engine.integrate(case.call())
        assert all(call.replay is not None for call in engine._runner.kept.values())
        before = cuda.copied_in, cuda.copied_out
        engine.integrate(case.call())
        moved_in, moved_out = cuda.copied_in - before[0], cuda.copied_out - before[1]
    actions = 4 * 64 * 16 * 7
    assert moved_out == 4 * actions
    assert actions <= moved_in <= actions + 4 * 64  # start rows and dt, each padded


@loops
def test_if_recording_fails_the_engine_continues_eagerly_and_says_so_once(caplog, monkeypatch):
    monkeypatch.setattr(staged.logger, "propagate", True)  # the package launch sets it to False
    cases = [*again(EngineCase()), *again(EngineCase(batch=3))]
    wanted = [case.run() for case in cases]
    error = RuntimeError("operation not permitted when stream is capturing")
    with devices_of_loops(), mock.patch.object(torch.cuda, "graph", side_effect=error) as graph:
        engine = TrajectoryIntegrator("cuda")
        with caplog.at_level(logging.WARNING):
            for case, right in zip(cases, wanted, strict=True):
                assert_same(case.run(engine), right)
    assert graph.call_count == 1
    (record,) = caplog.records
    assert "without CUDA graphs" in record.message and "stream is capturing" in record.message


@loops
@pytest.mark.parametrize(("most_bytes", "max_graphs"), [(1000, 16), (1 << 20, 0)], ids=["large", "no graphs"])
def test_large_calls_share_one_memory_and_are_not_recorded(most_bytes, max_graphs, monkeypatch):
    monkeypatch.setattr(staged, "MOST_RECORDED_BYTES", most_bytes)
    cases = again(EngineCase(batch=50))
    wanted = [case.run() for case in cases]
    with devices_of_loops():
        engine = TrajectoryIntegrator("cuda", max_graphs=max_graphs)
        for case, right in zip(cases, wanted, strict=True):
            assert_same(case.run(engine), right)
        assert not engine._runner.kept


@settings(max_examples=40)
@given(case=engine_cases())
def test_backends_that_make_new_results_serve_too(case):
    """The reference, which runs on every device."""
    expected = case.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged, "default_backend", lambda device: Backend.REFERENCE)
        patch.setattr(staged, "launcher", lambda *which: launcher(*which[:2], "reference", "cpu"))
        runner = StagedRunner(torch.device("cpu"), torch.float32, max_graphs=4)
        assert_same(case.run(TrajectoryIntegrator("cpu", runner=runner)), expected)


# What the stand-in notices


@loops
@pytest.mark.parametrize("planted", ["no wait", "filled before the wait", "another stream's memory"])
def test_faults_planted_into_the_engine_are_found(planted, monkeypatch):
    case = EngineCase()
    wanted = case.run()
    if planted == "no wait":
        monkeypatch.setattr("kit.fake_cuda._Stream.synchronize", lambda self: None)
    elif planted == "filled before the wait":
        fill = staged.PackedInputs.upload

        def upload(self: staged.PackedInputs) -> None:
            fill(self)
            self._on_host.numpy()[:] = 0

        monkeypatch.setattr(staged.PackedInputs, "upload", upload)
    else:
        monkeypatch.setattr(staged.PackedResults, "download", lambda self: None)
    with devices_of_loops(2), pytest.raises((DeviceFault, AssertionError)):
        assert_same(case.run(TrajectoryIntegrator("cuda")), wanted)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("start", ["one", "pool"])
def test_graphs_replay_with_new_inputs_and_allocate_nothing(kernel, start):
    case = EngineCase(kernel=kernel, start=start)
    engine = TrajectoryIntegrator("cuda")
    for other in again(case):  # eagerly, recorded, replayed
        assert_same(other.run(engine), other.run())
    assert [call.replay is not None for call in engine._runner.kept.values()] == [True] * 2
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for other in again(case):
        other.run(engine)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


@pytest.mark.gpu
def test_dropped_graphs_give_their_memory_back():
    engine, used = TrajectoryIntegrator("cuda", max_graphs=4), []
    EngineCase(dof=7, batch=32).run(engine)
    for _ in range(3):
        for batch in range(1, 12):
            for case in again(EngineCase(dof=7, batch=batch)):
                assert_same(case.run(engine), case.run())
        assert len(engine._runner.kept) == 4
        gc.collect()
        torch.cuda.empty_cache()
        used.append(torch.cuda.memory_allocated())
    assert used[2] <= used[1]
