"""Whatever compiled steps of motions compute in these tests, their reference computes, too: it must be the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import BuiltinFunctionType

import numpy as np
import pytest
import reference_steps

from traj_integrator_ros.execution import native

KNOTS = {"spline": 0, "united": 4, "stop": 5, "pieces_of_profile": 5, "blend": 6}
"""Which argument has the knots of the pieces that these functions write to their last one."""


def compared(name: str) -> Callable[..., object]:
    """A compiled function that compares what it returns and writes with what its reference does."""
    compiled, plain = getattr(native, name), getattr(reference_steps, name)

    def both(*arguments: object) -> object:
        copies = [value.copy() if isinstance(value, np.ndarray) else value for value in arguments]
        returned = compiled(*arguments)
        assert returned == plain(*copies)
        for ours, theirs in zip(outputs(name, returned, arguments), outputs(name, returned, copies), strict=True):
            if not np.array_equal(ours, theirs, equal_nan=True):
                apart = np.abs(np.subtract(ours, theirs, where=ours != theirs, out=np.zeros(ours.shape))).max()
                assert apart <= 1e-9 * np.abs(theirs).max(initial=1e-3), (name, ours, theirs)
        return returned

    return both


def outputs(name: str, returned: object, arguments: list | tuple) -> list[np.ndarray]:
    """All arrays, as far as they are written; coefficients in units of position, for they are rounded in these."""
    arrays = [value for value in arguments if isinstance(value, np.ndarray)]
    count = returned if type(returned) is int else None
    if name in KNOTS:
        steps = np.diff(arguments[KNOTS[name]][: None if count is None else count + 1])
        arrays[-1] = arrays[-1][:count] * steps[:, None, None] ** np.arange(arrays[-1].shape[1])[:, None]
    return arrays if count is None else [one[: count + 1] for one in arrays]


@pytest.fixture(autouse=True, scope="module")
def computed_twice() -> Iterator[None]:
    """Compares all calls of compiled functions."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in vars(native).copy().items():
            if isinstance(value, BuiltinFunctionType) and name != "all_finite":  # it knows what it cannot read
                patch.setattr(native, name, compared(name))
        yield
