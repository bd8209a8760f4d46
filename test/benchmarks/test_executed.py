"""The table of commands: the node keeps its bounds, and they can be missed."""

from __future__ import annotations

import pytest

from benchmarks.executed.cases import items, met
from benchmarks.executed.playing import Node, RowsAsPoints

REPRESENTATIVE = "jerk-limited motions", "planned", "10 Hz", "stops", "position in"


@pytest.mark.parametrize("what", REPRESENTATIVE)
def test_the_node_keeps_the_bounds_and_rows_as_points_do_not(what):
    lines = [item for item in items(None, quick=True) if what in item.what]
    assert lines
    for item in lines:
        assert met(item, item.measure(Node)), f"{item.what}: {item.figure}"
    assert not all(met(item, item.measure(RowsAsPoints)) for item in lines)


def test_noise_of_rows_adds_less_than_half_of_its_own_acceleration():
    """The bound of 1 is missed: the fade that lets replanned goals be reached takes more."""
    (item,) = (one for one in items(None, quick=True) if "noise" in one.what)
    assert item.measure(Node) <= 1.4 < item.measure(RowsAsPoints)
