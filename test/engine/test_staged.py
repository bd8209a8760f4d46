"""The runner of devices: right results, one recording for each kind of call, the oldest dropped first.

On the CPU a stand-in records; the tests marked gpu use CUDA graphs.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
from collections.abc import Callable

import pytest
import torch
from engine_cases import EngineCase, assert_same, engine_cases, engine_on
from hypothesis import given, settings

from traj_integrator_ros.engine import staged as engine_staged
from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.engine.staged import Replay, StagedRunner
from traj_integrator_ros.kernels import MAPS, Backend
from traj_integrator_ros.kernels.backends import launcher


class CallRecorder:
    """Records by remembering the function; a broken recorder raises an error."""

    def __init__(self, *, is_broken: bool = False) -> None:
        self.is_broken = is_broken
        self.recorded = 0
        self.replayed = 0

    def record(self, run: Callable[[], None]) -> Replay:
        self.recorded += 1
        if self.is_broken:
            raise RuntimeError("operation not permitted when stream is capturing")

        def replay() -> None:
            self.replayed += 1
            run()

        return replay


def staged(recorder: CallRecorder, max_graphs: int = 16) -> StagedRunner:
    return StagedRunner(torch.device("cpu"), torch.float32, max_graphs, recorder)


@settings(max_examples=100)
@given(case=engine_cases())
def test_staged_calls_give_what_the_direct_executor_gives(case):
    expected = [case.run() for case in again(case)]
    recorder = CallRecorder()
    engine = engine_on(staged(recorder))
    for other, wanted in zip(again(case), expected, strict=True):
        assert_same(other.run(engine), wanted, exact=False)
    kinds = 1 + any(case.given_upstream)
    assert (recorder.recorded, recorder.replayed) == (kinds, 2 * kinds)


@settings(max_examples=40)
@given(case=engine_cases())
def test_backends_that_make_new_results_serve_too(case):
    """The reference, which runs on every device."""
    expected = case.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_staged, "default_backend", lambda device: Backend.REFERENCE)
        patch.setattr(engine_staged, "launcher", lambda *which: launcher(*which[:2], "reference", "cpu"))
        runner = StagedRunner(torch.device("cpu"), torch.float32, max_graphs=4)
        assert_same(case.run(engine_on(runner)), expected, exact=False)


def again(case: EngineCase) -> list[EngineCase]:
    """The same kind of call three times, with different numbers."""
    return [dataclasses.replace(case, seed=seed) for seed in (1, 2, 3)]


def test_if_recording_fails_the_engine_continues_eagerly_and_says_so_once(caplog, monkeypatch):
    monkeypatch.setattr(engine_staged.logger, "propagate", True)  # the package launch sets it to False
    recorder = CallRecorder(is_broken=True)
    case = EngineCase()
    engine = engine_on(staged(recorder))
    with caplog.at_level(logging.WARNING):
        for other in (*again(case), *again(EngineCase(batch=3))):
            assert_same(other.run(engine), other.run(), exact=False)
    assert recorder.recorded == 1
    (record,) = caplog.records
    assert "without CUDA graphs" in record.message and "stream is capturing" in record.message


@pytest.mark.parametrize(("most_bytes", "max_graphs"), [(1000, 16), (1 << 20, 0)], ids=["large", "no graphs"])
def test_large_calls_share_one_memory_and_are_not_recorded(most_bytes, max_graphs, monkeypatch):
    monkeypatch.setattr(engine_staged, "MOST_RECORDED_BYTES", most_bytes)
    recorder = CallRecorder()
    runner = staged(recorder, max_graphs)
    case = EngineCase(batch=50)
    engine = engine_on(runner)
    for other in again(case):
        assert_same(other.run(engine), other.run(), exact=False)
    assert recorder.recorded == len(runner.kept) == 0


@pytest.fixture
def cuda() -> TrajectoryIntegrator:
    return TrajectoryIntegrator("cuda", max_graphs=4)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", MAPS.values(), ids=MAPS)
@pytest.mark.parametrize("start", ["one", "pool"])
def test_graphs_replay_with_new_inputs_and_allocate_nothing(kernel, start):
    case = EngineCase(kernel=kernel, start=start)
    engine = TrajectoryIntegrator("cuda")
    for other in again(case):  # eagerly, recorded, replayed
        assert_same(other.run(engine), other.run(), exact=False)
    assert [call.replay is not None for call in engine._runner.kept.values()] == [True] * 2
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    for other in again(case):
        other.run(engine)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


@pytest.mark.gpu
def test_dropped_graphs_give_their_memory_back(cuda):
    EngineCase(dof=7, batch=32).run(cuda)
    used = []
    for _ in range(3):
        for batch in range(1, 12):
            for case in again(EngineCase(dof=7, batch=batch)):
                assert_same(case.run(cuda), case.run(), exact=False)
        assert len(cuda._runner.kept) == 4
        gc.collect()
        torch.cuda.empty_cache()
        used.append(torch.cuda.memory_allocated())
    assert used[2] <= used[1]
