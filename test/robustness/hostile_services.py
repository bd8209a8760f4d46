"""The services under fire: a good request of each, and what must hold of every answer."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

import numpy as np
from hostile_messages import NODE, good_evaluation, good_sequence
from hostile_oracle import OUTPUTS

from traj_integrator_interfaces.msg import TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate

INTEGRATE, GRADIENT, EVALUATE, COMMITTED = "~/integrate", "~/compute_gradient", "~/evaluate", "~/committed"
_MAY_BE_ODD = ("violation", "commanded", "measured")
"""What was not commanded or measured is NaN; limits that there are not are exceeded by -inf."""


def assert_answered(channel: str, asked: object, answer: object) -> None:
    """It is, with finite numbers, as many as were asked for."""
    assert answer.success, answer.message
    numbers = [values for name, values in arrays_of(answer) if name.split("_")[0] not in _MAY_BE_ODD]
    assert all(np.isfinite(values).all() for values in numbers), answer
    SERVICES[channel][2](asked, answer)


def arrays_of(message: object) -> Iterator[tuple[str, np.ndarray]]:
    """All arrays of numbers in a message, and their names."""
    for name in message.get_fields_and_field_types():
        value = getattr(message, name)
        if isinstance(value, array):
            yield name, np.asarray(value)
        elif hasattr(value, "get_fields_and_field_types"):
            yield from arrays_of(value)


def assert_batch(batch: TrajectoryBatch) -> None:
    """As long as it says, and finite; joint trajectories are checked by the client as they come."""
    for name in OUTPUTS:
        values = np.asarray(getattr(batch, name))
        assert values.size == batch.batch * batch.horizon * NODE.dof, (name, values.size)
        assert np.isfinite(values).all(), name
    times = np.asarray(batch.time_from_start).reshape(-1, batch.horizon)
    assert np.isfinite(times).all() and (np.diff(times, axis=1) > 0).all()


def _check_integration(asked: Integrate.Request, answer: Integrate.Response) -> None:
    if asked.fields in (0, 15):
        assert_batch(answer.trajectory)


def _check_evaluation(asked: Evaluate.Request, answer: Evaluate.Response) -> None:
    assert len(answer.cost) == asked.actions.batch
    violations = [np.asarray(getattr(answer, f"violation_{name}")) for name in OUTPUTS]
    assert any(some.size for some in violations) == asked.want_limit_violations
    assert all((some < np.inf).all() for some in violations), "NaN or infinite"
    assert answer.trajectory.batch == len(asked.trajectory_rows)


def _check_committed(asked: Committed.Request, answer: Committed.Response) -> None:
    assert len(answer.position) == len(answer.velocity) == asked.rows * NODE.dof, answer


def _good_gradient() -> ComputeGradient.Request:
    actions = good_sequence()
    return ComputeGradient.Request(actions=actions, grad_position=actions.data)


SERVICES: dict[str, tuple[type, Callable[[], object], Callable[[object, object], None]]] = {
    INTEGRATE: (Integrate, lambda: Integrate.Request(actions=good_sequence()), _check_integration),
    GRADIENT: (ComputeGradient, _good_gradient, lambda asked, answer: None),
    EVALUATE: (Evaluate, good_evaluation, _check_evaluation),
    COMMITTED: (Committed, lambda: Committed.Request(rows=3), _check_committed),
}
"""Type, a good request, and what looks at a request and its answer."""
