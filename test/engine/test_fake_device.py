"""The engine keeps the rules of a CUDA device: a stand-in raises an error where a real one gives wrong numbers."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from engine_cases import EngineCase, assert_same, engine_cases
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.fake_cuda import DeviceFault, FakeCuda, devices_of_loops
from traj_integrator_ros.engine import staged
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, Backend, default_backend

pytestmark = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)


STEP = st.tuples(engine_cases(), st.sampled_from(("call", "call", "call", "error", "close")))


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
        assert_same(case.run(engine), right, exact=False)


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


def test_recorded_calls_move_their_inputs_and_results_and_no_more():
    case = EngineCase(MAPS["jerk"], batch=64, horizon=16, dof=7)
    with devices_of_loops(2) as cuda:
        engine = TrajectoryIntegrator("cuda")
        for _ in range(3):
            engine.integrate(case.call())
        before = cuda.copied_in, cuda.copied_out
        engine.integrate(case.call())
        moved_in, moved_out = cuda.copied_in - before[0], cuda.copied_out - before[1]
    actions = 4 * 64 * 16 * 7
    assert moved_out == 4 * actions
    assert actions <= moved_in <= actions + 4 * 64  # start rows and dt, each padded


# What the stand-in notices


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
        assert_same(case.run(TrajectoryIntegrator("cuda")), wanted, exact=False)
