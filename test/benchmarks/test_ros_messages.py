"""The benchmark of messages compares what is equal."""

from __future__ import annotations

import pytest

from benchmarks.suites.ros_messages import ros_messages

pytestmark = pytest.mark.ros


def test_all_ways_to_make_and_read_messages_give_the_same() -> None:
    cases = list(ros_messages(quick=True))
    assert len(cases) == 11
    for case in cases:
        for contender in (case.ours, *case.peers, *([case.limit] if case.limit else [])):
            contender.check(contender.run())
