"""`python -m soak`, and `--random`: a line for each failure with the command that shows it again, or a clear error."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from soak import __main__ as soak
from soak.streams import command
from soak.streams.invariants import Failure
from soak.streams.scenes import Scene, random_scene
from soak.streams.simulation import Run


def test_wrong_arguments_are_told(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["soak", "--set", "dt=1"])
    with pytest.raises(SystemExit, match="2"):
        soak.main()
    assert "argument --set: expected NAME:=VALUE, got 'dt=1'" in capsys.readouterr().err


def not_simulated(scene: Scene, **parameters: object) -> Run:
    return Run(scene, np.zeros((3, 1, scene.dof)), np.zeros(1, bool), scene.policy(np.random.default_rng(0)))


def test_a_failure_is_one_line_that_reproduces_it(monkeypatch, capsys) -> None:
    broken = Failure(7, "velocity", "joint2", 1.2345, 3.5, 2.0, "step of position")
    monkeypatch.setattr(command, "simulate", not_simulated)
    monkeypatch.setattr(command, "failures", lambda run: [broken] if run.scene.seed == 7 else [])
    arguments = ["--random", "--first", "6", "--seeds", "2", "--workers", "1", "--without-state"]
    assert command.main([*arguments, "--set", "publish.lead_time:=0.05"]) == 1
    output = capsys.readouterr().out
    (line,) = (line for line in output.splitlines() if line.startswith("FAILED"))
    assert "seed 7: velocity joint2 at 1.234 s: 3.5, limit 2 (step of position)" in line
    again = "python -m soak --random --without-state --set publish.lead_time:=0.05 --seed 7"
    assert line.endswith(again)
    assert "1 of 2 streams failed" in output and "velocity       1" in output


def test_a_seed_gives_one_scene_and_seeds_differ() -> None:
    one, again, other = (dataclasses.asdict(random_scene(seed)) for seed in (5, 5, 6))
    one.pop("policy"), again.pop("policy")
    assert one.keys() == again.keys() and all(np.array_equal(one[key], again[key]) for key in one if key != "bounds")
    assert str(one["sending"]) != str(other["sending"])


def test_scenes_are_what_they_say() -> None:
    for seed in range(60):
        scene = random_scene(seed, with_state=False)
        assert not scene.droop.any() and scene.noise == scene.quantization == scene.state_rate == 0
        assert all(it.kind != "restart" for it in scene.disturbances) and scene.from_desired
    drawn = [random_scene(seed) for seed in range(200)]
    kinds = {it.kind for scene in drawn for it in scene.disturbances}
    assert kinds == {"freeze", "restart", "dead joint states"} and any(scene.droop.any() for scene in drawn)
    assert max(scene.transport[1] for scene in drawn) <= 0.010
    assert {scene.form.space for scene in drawn} == {1, 2, 4} and {scene.complete for scene in drawn} == {True, False}
