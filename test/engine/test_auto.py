"""Calls of `device: auto` go to the CPU or to the device, depending on measured times."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from engine_cases import EngineCase, assert_same, engine_on

from traj_integrator_ros.engine import auto as engine_auto
from traj_integrator_ros.engine import integrator as engine_integrator
from traj_integrator_ros.engine.auto import AutoRunner
from traj_integrator_ros.engine.call import Call, call_of, ends_of
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.runners import DirectRunner
from traj_integrator_ros.engine.staged import StagedRunner
from traj_integrator_ros.kernels import MAPS, Backend, default_backend

pytestmark = pytest.mark.skipif(
    default_backend(torch.device("cpu")) is not Backend.NATIVE, reason="the C++ kernels are not built"
)
HORIZON, DOF = 8, 3
NUMBERS = 4 * HORIZON * DOF
"""Numbers in one trajectory."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Timed:
    """A runner that takes a given time and otherwise does what `runner` does."""

    def __init__(self, clock: Clock, start_us: float, trajectory_us: float) -> None:
        self.clock, self.start_us, self.trajectory_us = clock, start_us, trajectory_us
        self.batches: list[int] = []
        self.releases = 0

    def release(self) -> None:
        self.releases += 1

    def run(self, call: Call) -> None:
        trajectories = call.shape[0] * (1 if call.upstream is None else 2)
        self.batches.append(trajectories)
        self.clock.now += self.start_us + self.trajectory_us * trajectories


def auto(cpu_us: tuple[float, float], device_us: tuple[float, float], allocate: Callable = torch.empty) -> AutoRunner:
    clock = Clock()
    return AutoRunner(Timed(clock, *cpu_us), Timed(clock, *device_us), allocate, clock)


def integrate(engine: TrajectoryIntegrator, batch: int) -> None:
    rest = ends_of((np.zeros((1, DOF)), None, None))
    engine.integrate(call_of(MAPS["clique"], np.zeros((batch, HORIZON, DOF), np.float32), 0.02, rest))


def test_each_size_is_computed_where_it_was_faster():
    runner = auto(cpu_us=(3, 0.1), device_us=(40, 0.01))  # alike at 411 trajectories, 206 the other way
    engine = engine_on(runner)
    assert (engine.crossover, engine.place) == (None, "cpu")
    integrate(engine, 1)
    assert engine.place == "cpu, or the CPU below 4.92e+04 numbers in a batch of trajectories (gradients: 1.23e+04)"
    forward, vjp = (crossover / NUMBERS for crossover in engine.crossover)
    assert 256 <= forward <= 1024
    assert 64 <= vjp <= 256
    assert runner.device.releases == 1
    for batch, is_on_cpu in ((1, True), (250, True), (1030, False), (100_000, False)):
        runner.cpu.batches.clear(), runner.device.batches.clear()
        integrate(engine, batch)
        assert (runner.cpu.batches, runner.device.batches) == (([batch], []) if is_on_cpu else ([], [batch]))


@pytest.mark.parametrize(
    ("device_us", "most_numbers", "expected"),
    [((1, 0.01), math.inf, 0.0), ((1000, 1.0), math.inf, math.inf), ((400, 0.01), 100 * NUMBERS, math.inf)],
    ids=["always", "never", "memory ends before"],
)
def test_a_device_that_always_or_never_wins_does_all_or_nothing(device_us, most_numbers, expected):
    def allocate(shape):
        if math.prod(shape) > most_numbers:
            raise MemoryError
        return torch.empty(shape)

    runner = auto((3, 0.1), device_us, allocate)
    integrate(engine_on(runner), 2)
    assert runner.crossover == (expected, expected)


def test_both_give_the_same_numbers_and_costs_follow_the_sizes():
    case, results = EngineCase(horizon=HORIZON, dof=DOF), []
    for cpu_is_chosen in (True, False):
        cpu, device = DirectRunner(torch.float32), StagedRunner(torch.device("cpu"), torch.float32, max_graphs=0)
        clock = Clock()
        runner = AutoRunner(cpu, device, torch.empty, clock)
        loser = device if cpu_is_chosen else cpu

        def slowly(call, run=loser.run, clock=clock):
            clock.now += 1
            run(call)

        loser.run = slowly
        engine = engine_on(runner)
        results.append(case.run(engine))
        assert runner.is_for_cpu(case.batch * NUMBERS) is cpu_is_chosen
    assert_same(*results, exact=False)


@pytest.mark.parametrize(("device", "measures"), [("auto", True), ("cpu", False)])
def test_auto_alone_measures_and_warming_up_is_enough(device, measures, monkeypatch):
    answers = iter([Backend.TRITON, Backend.NATIVE])
    monkeypatch.setattr(engine_integrator, "default_backend", lambda device: next(answers, Backend.NATIVE))
    monkeypatch.setattr(engine_auto, "BATCHES", (1, 2))
    engine = TrajectoryIntegrator(device)
    assert engine.crossover is None
    engine.warm_up(MAPS["clique"], DOF, [(2, HORIZON)])
    assert (engine.crossover is not None) is measures
