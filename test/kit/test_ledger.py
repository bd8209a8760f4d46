"""Every message is accounted for: answered, rejected, sent while the node was down, or lost."""

from __future__ import annotations

import pytest

from kit.ledger import Ledger, NodeCounts


def sent(count: int, answered: set[int], rejected: set[int] = frozenset()) -> Ledger[str]:
    """A ledger of messages sent every 0.05 s from 10 s on; their stamps are their numbers."""
    ledger: Ledger[str] = Ledger()
    for k in range(count):
        ledger.send(k, f"message {k}", 10 + 0.05 * k, answer_expected=k not in rejected)
        if k in answered:
            assert ledger.answer(k, 10 + 0.05 * k + 0.003) == f"message {k}"
    return ledger


def counts(sequences: int, published: int, **by_reason: int) -> NodeCounts:
    return NodeCounts(sequences, published, 0, sum(by_reason.values()), by_reason)


@pytest.mark.parametrize(
    ("count", "silent", "restart", "refused", "outcomes"),
    [
        (100, {7, 50, 51}, None, 1, (1, 0, 2)),
        (100, range(60, 100), None, 0, (0, 0, 40)),
        (200, {20, *range(80, 120)}, 118, 0, (0, 40, 1)),  # number 20 was lost long before
        *((200, range(80, 120), seen, 0, (0, 40, 0)) for seen in (110, 119, 125)),  # seen before or after the answers
        (100, range(60, 100), 260, 0, (0, 40, 0)),  # back after the last message
        (200, {*range(20, 30), *range(150, 160)}, 160, 0, (0, 10, 10)),
    ],
)
def test_everything_is_answered_rejected_sent_without_a_node_or_lost(count, silent, restart, refused, outcomes):
    ledger = sent(count, answered=set(range(count)) - set(silent))
    if restart is not None:
        ledger.restarted(10 + 0.05 * restart)
    balance = ledger.balance(refused)
    assert (balance.sent, balance.answered) == (count, count - len(silent))
    assert (balance.rejected, balance.node_down, balance.lost) == outcomes
    assert ledger.latencies_s() == pytest.approx([0.003] * balance.answered)


def test_latencies_leave_out_what_was_sent_soon_after_the_first():
    ledger = Ledger()
    for stamp, at_s in enumerate((10.0, 10.4, 10.5, 11.0)):
        ledger.send(stamp, None, at_s)
        ledger.answer(stamp, at_s + (stamp + 1) * 0.25)
    assert ledger.latencies_s() == [0.25, 0.5, 0.75, 1.0] and ledger.latencies_s(0.5) == [0.75, 1.0]
    assert Ledger().latencies_s(0.5) == []


def test_what_is_forgotten_still_counts():
    ledger = sent(100, answered=set(range(90)))
    assert ledger.forget_answered() == pytest.approx([0.003] * 90) and ledger.latencies_s() == []
    assert (ledger.sent, ledger.answered, ledger.open) == (100, 90, 10)
    assert ledger.answer(95, 16.0) == "message 95"
    assert ledger.balance(refused=0).lost == 9 and ledger.open == 9
    assert ledger.answer(3, 16.0) is None and ledger.unknown_answers == 1


def test_rejections_of_other_input_hide_no_loss():
    # Three sequences arrived and were published; joint states and services were rejected besides.
    total = NodeCounts().plus(counts(0, 0, not_finite=0, unknown_joint=0), counts(3, 3, not_finite=0, unknown_joint=12))
    assert sent(4, answered={0, 1, 2}).balance(total.refused).lost == 1
    assert total.by_reason == {"unknown_joint": 12}


def test_counts_from_before_do_not_count_and_those_before_a_restart_do():
    before = counts(60, 48, not_finite=11, limits=1)
    total = NodeCounts().plus(counts(50, 40, not_finite=10), before)
    total = total.plus(before, counts(5, 4, not_finite=1))  # a new node
    assert total == counts(15, 12, limits=1, not_finite=2)
    assert total.refused == 3


def test_answers_to_nothing_and_second_answers_are_reported():
    ledger = sent(3, answered={0})
    assert ledger.answer(0, 11) is None and ledger.answer(77, 11) is None
    assert ledger.unknown_answers == 2 and ledger.answered == 1


def test_only_the_latest_that_can_be_answered_are_in_flight():
    ledger = sent(100, answered=set(range(98)), rejected={99})
    assert ledger.in_flight(15.0) == 1
    assert ledger.in_flight(16.0, within_s=1.0) == 0
