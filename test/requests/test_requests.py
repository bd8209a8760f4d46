"""Checking action sequences, without ROS; test/robustness spoils every field of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipelines import rejected

from traj_integrator_ros.kernels import ControlSpace
from traj_integrator_ros.requests.evaluation_requests import check_upstream
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason, all_finite, shown, shown_names
from traj_integrator_ros.requests.sequences import RequestRules, SequenceFields, check_sequence

NAMES = ("a", "b", "c")
DOF = len(NAMES)
MAX_BATCH = 4


def rules(max_batch: int = MAX_BATCH, max_horizon: int = 6) -> RequestRules:
    return RequestRules(NAMES, ControlSpace.POSITION, max_batch, max_horizon)


def fields(batch: int = 2, horizon: int = 3, **changes: object) -> SequenceFields:
    empty = np.zeros(0, np.float32)
    base = SequenceFields((), 0, batch, horizon, empty, empty, empty, empty, np.zeros(0, np.uint32), empty)
    if "data" not in changes:
        changes["data"] = np.arange(batch * horizon * DOF, dtype=np.float32)
    return base._replace(**changes)


def reason(given_fields: SequenceFields, given_rules: RequestRules | None = None, **options: bool) -> RejectionReason:
    return rejected(check_sequence, given_fields, given_rules or rules(), **options).reason


@given(st.permutations(NAMES))
def test_columns_go_to_the_node_and_back_by_name(order: list[str]) -> None:
    """Arrays of actions, of a start and of upstream gradients."""
    row = np.float32([NAMES.index(name) for name in order])
    request = check_sequence(fields(joint_names=order, start_position=row, data=np.tile(row, 6)), rules())
    empty = np.zeros(0, np.float32)
    gradient = check_upstream((empty, np.tile(row, 6), empty, empty), request)
    for into in (request.actions, request.start.rows[0], gradient[1]):
        assert (into == np.arange(DOF)).all()
        assert (request.columns.out_of_node(into) == row).all()
    assert gradient[0] is None


@pytest.mark.parametrize(
    ("dt", "shape", "of_each"),
    [([], None, None), ([0.1], (), ()), ([0.1] * 3, (3,), None), ([0.1] * 6, (2, 3), None), ([0.1, 0.2], None, (2, 1))],
    ids=["parameter", "uniform", "per step", "per trajectory and step", "per trajectory"],
)
def test_dt_is_understood_by_its_length_and_by_what_it_counts(
    dt: list[float], shape: tuple[int, ...] | None, of_each: tuple[int, ...] | None
) -> None:
    for per, expected in ((0, shape), (1, of_each)):
        given_fields = fields(dt=np.asarray(dt, np.float32), dt_per=per)
        if dt and expected is None:
            assert reason(given_fields) is RejectionReason.SIZE_MISMATCH
            continue
        request = check_sequence(given_fields, rules())
        assert request.dt is None if expected is None else np.shape(request.dt) == expected


@pytest.mark.parametrize("space", [*ControlSpace])
def test_every_control_space_takes_a_step_length_for_each_trajectory(space: ControlSpace) -> None:
    request = check_sequence(fields(control_space=space, dt=np.float32([0.25, 0.5]), dt_per=1), rules())
    assert request.dt.tolist() == [[0.25], [0.5]] and request.dt_length == request.dt.size


def test_equal_steps_of_a_spline_become_one() -> None:
    def spline(*dt: float) -> SequenceFields:
        return fields(control_space=5, dt=np.float32(dt))

    assert check_sequence(spline(*[0.25] * 3), rules()).dt == 0.25
    assert check_sequence(spline(*[0.25] * 3, *[0.5] * 3), rules()).dt.tolist() == [[0.25], [0.5]]
    assert reason(spline(0.1, 0.1, 0.2)) is RejectionReason.INVALID_DT
    check_sequence(fields(dt=np.float32([0.1, 0.1, 0.2])), rules())  # as all other spaces do


def test_sizes_are_compared_before_anything_is_allocated() -> None:
    claims = fields()._replace(batch=2**31, horizon=2**31)
    assert reason(claims, rules(max_batch=2**32, max_horizon=2**32)) is RejectionReason.SIZE_MISMATCH


def test_a_result_that_no_message_can_carry_is_refused_before() -> None:
    large = rules(max_batch=10**7, max_horizon=1000)
    batch = 2**31 // (4 * 1000 * (4 * DOF + 1)) + 1
    # It takes no memory: all elements are the same one.
    data = np.broadcast_to(np.float32(0), batch * 1000 * DOF)
    with pytest.raises(Rejected, match="size_out_of_range: batch: expected trajectories of at most 2146435072 bytes"):
        check_sequence(fields(batch=batch, horizon=1000, data=data), large)
    assert check_sequence(fields(batch=batch, horizon=1, data=data[: batch * DOF]), large).batch == batch


def test_the_joint_state_is_the_one_start_row_that_an_index_can_mean() -> None:
    request = check_sequence(fields(start_index=np.zeros(2, np.uint32)), rules())
    assert not request.start.rows and request.start.index.tolist() == [0, 0]
    assert reason(fields(start_index=np.array([0, 1], np.uint32))) is RejectionReason.START_INDEX


def test_what_came_from_outside_is_shown_short_and_printable() -> None:
    assert shown("j" * 10_000) == f"'{'j' * 60}'... (10000 characters)"
    assert shown("a\n\x1b[31m\u202e").isprintable()
    assert shown_names(["a"] * 100).endswith("(100 names)")


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=40), st.sampled_from(["float32", "float64"]))
def test_finite_are_those_arrays_whose_elements_all_are(values: list[float], dtype: str) -> None:
    with np.errstate(over="ignore"):
        numbers = np.asarray(values, dtype)
    assert all_finite(numbers) == all(map(math.isfinite, numbers.tolist()))
    assert all_finite(numbers.reshape(1, -1, 1)) == all_finite(numbers)
    assert all_finite(np.full(1000, np.finfo(dtype).max)), "though their sum overflows"
