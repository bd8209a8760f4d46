"""The engine on a device: the right numbers and few copies on a stand-in for CUDA, and with every backend."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from engine_cases import EngineCase, assert_same, engine_cases, engine_on
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.fake_cuda import FakeCuda, devices_of_loops
from traj_integrator_ros.engine import device as engine_device
from traj_integrator_ros.engine.device import DeviceRunner
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.kernels import MAPS, Backend, default_backend
from traj_integrator_ros.kernels.backends import launcher

pytestmark = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)


STEP = st.tuples(engine_cases(), st.sampled_from(("call", "call", "call", "error", "close")))


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=1, max_size=5), st.integers(1, 3), st.sampled_from(("cuda", "cuda:1")))
def test_any_sequence_of_calls_gives_the_right_numbers(steps, times, device):
    wanted = [case.run() for case, _ in steps]
    with devices_of_loops(2) as cuda:
        engine = TrajectoryIntegrator(device)
        for _ in range(times):
            follow(engine, steps, wanted)
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
            with cuda:
                engine = TrajectoryIntegrator(device)
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


def test_calls_move_their_inputs_and_results_and_no_more():
    case = EngineCase(MAPS["jerk"], batch=64, horizon=16, dof=7)
    with devices_of_loops(2) as cuda:
        TrajectoryIntegrator("cuda").integrate(case.call())
        actions = 4 * 64 * 16 * 7
        assert cuda.copied_out == 4 * actions
        assert actions <= cuda.copied_in <= actions + 4 * 64  # start rows and dt


@settings(max_examples=40)
@given(case=engine_cases())
def test_the_reference_which_runs_on_every_device_serves_too(case):
    expected = case.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_device, "launcher", lambda *which: launcher(*which[:2], "reference", "cpu"))
        runner = DeviceRunner(torch.device("cpu"), torch.float32)
        assert_same(case.run(engine_on(runner)), expected, exact=False)
