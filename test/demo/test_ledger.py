from __future__ import annotations

import numpy as np
import pytest
from motions import sine_motion

from traj_integrator_ros.demo.ledger import Ledger, NodeCounts
from traj_integrator_ros.demo.windows import Window, WindowKind, cut_window, paths_of
from traj_integrator_ros.kernels import ControlSpace


@pytest.fixture(scope="module")
def window() -> Window:
    motion = sine_motion()
    return cut_window(WindowKind(ControlSpace.POSITION), paths_of(motion, motion), 0, 1, np.random.default_rng(0))


def sent(window: Window, count: int, answered: set[int], rejected: set[int] = frozenset()) -> Ledger:
    """A ledger of sequences sent every 0.05 s from 10 s on; their stamps are their numbers."""
    ledger = Ledger()
    for k in range(count):
        ledger.send(k, window, 10 + 0.05 * k, answer_expected=k not in rejected)
        if k in answered:
            assert ledger.answer(k, 10 + 0.05 * k + 0.003) is window
    return ledger


def test_every_sequence_is_answered_rejected_or_lost(window):
    ledger = sent(window, 100, answered=set(range(100)) - {7, 50, 51})
    balance = ledger.balance(refused=1)
    assert (balance.sent, balance.answered, balance.rejected, balance.node_down, balance.lost) == (100, 97, 1, 0, 2)
    assert ledger.latencies() == pytest.approx([0.003] * 97)


def test_rejections_of_other_input_hide_no_loss(window):
    counts = NodeCounts()
    counts.update(0, 0, {"not_finite": 0, "unknown_joint": 0})
    # Three sequences arrived and were published; joint states and services were rejected besides.
    counts.update(3, 3, {"not_finite": 0, "unknown_joint": 12})
    assert sent(window, 4, answered={0, 1, 2}).balance(counts.refused).lost == 1
    assert counts.by_reason == {"unknown_joint": 12}


def test_counts_before_the_demo_and_over_restarts(window):
    counts = NodeCounts()
    counts.update(50, 40, {"not_finite": 10})
    assert counts.refused == 0 and counts.by_reason == {}
    counts.update(60, 48, {"not_finite": 11, "limits": 1})
    counts.update(5, 4, {"not_finite": 1})  # a new node
    assert counts.refused == 3
    assert counts.by_reason == {"limits": 1, "not_finite": 2}


def test_answers_to_nothing_or_twice_are_told(window):
    ledger = sent(window, 3, answered={0})
    assert ledger.answer(0, 11) is None and ledger.answer(77, 11) is None
    assert ledger.unknown_answers == 2 and ledger.answered == 1


def test_sequences_of_an_outage_are_not_lost_by_the_node(window):
    ledger = sent(window, 200, answered=set(range(200)) - {20} - set(range(80, 120)))
    ledger.restarted(10 + 0.05 * 118)
    balance = ledger.balance(refused=0)
    assert (balance.node_down, balance.lost) == (40, 1), "number 20 was lost long before"


def test_restart_seen_after_the_first_answers_or_before_the_last_miss(window):
    for seen in (118, 119, 125, 110):
        ledger = sent(window, 200, answered=set(range(200)) - set(range(80, 120)))
        ledger.restarted(10 + 0.05 * seen)
        assert ledger.balance(0).node_down == 40 and ledger.balance(0).lost == 0


def test_node_that_is_back_after_the_last_sequence_has_lost_none(window):
    ledger = sent(window, 100, answered=set(range(60)))
    ledger.restarted(10 + 0.05 * 100 + 8)
    assert (ledger.balance(0).node_down, ledger.balance(0).lost) == (40, 0)


def test_silence_long_before_a_restart_is_loss(window):
    ledger = sent(window, 200, answered=set(range(200)) - set(range(20, 30)) - set(range(150, 160)))
    ledger.restarted(10 + 0.05 * 160)
    assert (ledger.balance(0).node_down, ledger.balance(0).lost) == (10, 10)


def test_without_a_restart_silence_is_loss(window):
    assert sent(window, 100, answered=set(range(60))).balance(refused=0).lost == 40


def test_only_recent_sequences_that_can_be_answered_are_in_flight(window):
    ledger = sent(window, 100, answered=set(range(98)), rejected={99})
    assert ledger.in_flight(15.0) == 1
    assert ledger.in_flight(16.0, within=1.0) == 0
