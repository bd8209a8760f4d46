"""Every message is accounted for: answered, or still open; and so is what the node says that it counted."""

from __future__ import annotations

from kit.ledger import Ledger, NodeCounts


def test_what_is_answered_is_no_longer_open_and_its_latency_is_told_once():
    ledger: Ledger[str] = Ledger()
    for k, at_s in enumerate((10.0, 10.5, 11.0)):
        ledger.send(k, f"message {k}", at_s)
    assert ledger.answer(0, 10.25) == "message 0" and ledger.answer(2, 11.5) == "message 2"
    assert (ledger.sent, ledger.answered, ledger.open) == (3, 2, 1)
    assert ledger.new_latencies_s() == [0.25, 0.5] and ledger.new_latencies_s() == []
    assert ledger.answer(1, 16.0) == "message 1" and ledger.new_latencies_s() == [5.5]
    assert (ledger.open, ledger.unknown_answers) == (0, 0)


def test_answers_to_nothing_and_second_answers_are_counted():
    ledger: Ledger[str] = Ledger()
    ledger.send(0, "message", 10.0)
    assert ledger.answer(77, 11.0) is None and ledger.answer(0, 11.0) == "message"
    assert ledger.answer(0, 12.0) is None
    assert (ledger.unknown_answers, ledger.answered, ledger.new_latencies_s()) == (2, 1, [1.0])


def test_counts_from_before_do_not_count():
    before = NodeCounts(50, 40, 0, 10, {"not_finite": 10})
    values = {"sequences": "60", "published": "48", "service_calls": "0", "rejected": "12", "batches_published": "49"}
    now = NodeCounts.of_values(values | {"rejected.not_finite": "11", "rejected.limits": "1", "rejected.turns": "0"})
    assert now.since(before) == NodeCounts(10, 8, 0, 2, {"limits": 1, "not_finite": 1}, batches=49)
    assert (now.batches_alone, now.refused) == (1, 11)
