"""Motions do not depend on what is not there: rests up to rounding, rows that are twins, limits that never bind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.kernels.retime import MotionLimits, RetimeStatus, certify, retime

LIMITS = MotionLimits(velocity=1.0, acceleration=2.0, jerk=20.0)
PATH = torch.rand(6, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(7)) * 4 - 2
ORDERS = pytest.mark.parametrize("order", [2, 3])
powers = st.floats(-18.0, -5.0).map(lambda exponent: 10.0**exponent)


@settings(max_examples=6, deadline=None)
@given(powers, powers, st.sampled_from([1, -1]), st.sampled_from(["start", "end"]))
def test_a_rest_up_to_rounding_is_a_rest(speed: float, change: float, sign: int, end: str) -> None:
    motion = retime(PATH, LIMITS, **{f"{end}_speed": speed, f"{end}_acceleration": sign * change})
    assert torch.equal(motion.times, retime(PATH, LIMITS).times)
    assert torch.equal(retime(PATH, LIMITS, **{f"{end}_speed": -speed}).times, motion.times)


@ORDERS
@settings(max_examples=6, deadline=None)
@given(st.sampled_from(["float32", "noise"]), st.floats(-12.0, -6.7), st.floats(0.1, 10.0), st.sampled_from([0.0, 1e3]))
def test_rows_that_are_twins_but_for_rounding_change_nothing(
    order: int, kind: str, exponent: float, scale: float, offset: float
) -> None:
    path = PATH * scale + offset
    noise = 10.0**exponent * torch.randn(path.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    twins = torch.stack([path, path.float().double() if kind == "float32" else path + noise], 2).flatten(1, 2)
    motion, plain = (retime(rows, LIMITS, order=order, intervals=360) for rows in (twins, path))
    assert (motion.status == plain.status).all(), motion.status
    torch.testing.assert_close(motion.duration, plain.duration, rtol=1e-3, atol=0)


@ORDERS
@pytest.mark.parametrize("place", [0.0, 1.0, 3.0])
def test_a_path_shorter_than_encoders_tell_is_none_and_longer_ones_are_timed(order: int, place: float) -> None:
    for reach in (1e-9, 1e-12, 1e-16):
        motion = retime(place + reach * PATH, LIMITS, order=order)
        assert (motion.status == RetimeStatus.STILL).all() and (motion.duration == 0).all()
    for reach in (1e-7, 1e-5, 1e-3):
        motion = retime(place + reach * PATH, LIMITS, order=order)
        assert (motion.status == RetimeStatus.DONE).all() and (motion.duration > 0).all()


@pytest.mark.parametrize("kind", ["velocity", "acceleration", "jerk"])
def test_limits_that_are_huge_are_none(kind: str) -> None:
    others = {"velocity": 1.0, "acceleration": 2.0, "jerk": 20.0}
    without = retime(PATH, MotionLimits(**{**others, kind: torch.tensor([torch.inf])}))
    for huge in (1e12, 1e15, 1e30, 1e300):
        for limit in (huge, torch.tensor([huge, torch.inf, huge], dtype=torch.float64)):
            assert torch.equal(retime(PATH, MotionLimits(**{**others, kind: limit})).times, without.times)


def test_the_default_device_and_dtype_do_not_matter() -> None:
    path = PATH.clone().requires_grad_()
    plain = retime(path, LIMITS)
    plain.duration.sum().backward()
    gradient, path.grad = path.grad, None
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("meta"):
            motion = retime(path, LIMITS)
            motion.duration.sum().backward()
            motion.states(plain.times[:, :3])
            slow = retime(PATH, LIMITS, mode="slow only", dt=0.5, start_speed=0.5)
            wanted = retime(PATH, LIMITS, duration=20.0, start_speed=torch.zeros(6, device="cpu"))
            points = (part.detach() for part in (motion.times, motion.position, motion.velocity, motion.acceleration))
            told = certify(*points, counts=motion.count).ratios(LIMITS)
    finally:
        torch.set_default_dtype(before)
    assert torch.equal(motion.times, plain.times) and torch.equal(path.grad, gradient)
    assert torch.allclose(told.amax(-1), plain.ratio, rtol=1e-9)
    assert slow.duration.device.type == wanted.duration.device.type == "cpu"


TRANSFORMS: dict[str, Callable[[Callable], object]] = {
    "vmap": lambda timed: torch.func.vmap(timed)(PATH[:, None]),
    "grad": lambda timed: torch.func.grad(lambda path: timed(path).sum())(PATH),
    "jvp": lambda timed: torch.func.jvp(timed, (PATH,), (PATH,)),
    "jacrev": lambda timed: torch.func.jacrev(timed)(PATH),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_torch_func_are_refused_by_name(name: str) -> None:
    with pytest.raises(NotImplementedError, match=r"waypoints: expected a plain tensor, .* torch.func transform"):
        TRANSFORMS[name](lambda path: retime(path, LIMITS).duration)
    with pytest.raises(NotImplementedError, match=r"times: expected a plain tensor"):
        TRANSFORMS[name](lambda path: certify(torch.arange(5.0), path).highest)
