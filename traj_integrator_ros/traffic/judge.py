"""Whether every message is accounted for, answered or counted, on both sides. Knows no ROS."""

from __future__ import annotations

from .ledger import Balance
from .node_counts import NodeCounts


def violations(
    balance: Balance, unknown_answers: int, *, trajectories: int | None = None, node: NodeCounts | None = None
) -> list[str]:
    """Disagreements between the counts of planner, controller and node, one line each; empty if they agree.

    Args:
        balance: the outcomes of the planner's sequences.
        unknown_answers: trajectory batches that answer no sequence of the planner.
        trajectories: joint trajectories that the controller received or knows it missed; None if it cannot know, for
            example because the node was restarted.
        node: the node's own counts; None if others used it at the same time.

    """
    found = []
    answered = balance.answered + balance.missed
    if balance.lost:
        found.append(f"{balance.lost} sequences lost: neither answered nor counted as rejected")
    if unknown_answers:
        found.append(f"{unknown_answers} trajectory batches that answer no sequence of ours, or one twice")
    if trajectories is not None and trajectories != answered:
        found.append(f"{trajectories} joint trajectories for {answered} answered sequences")
    if node is not None:
        found += differences(
            ("sequences that the node counted", balance.sent, node.sequences),
            ("trajectory batches published", node.published, answered),
        )
    return found


def differences(*lines: tuple[str, int, int]) -> list[str]:
    """A line for each (what, expected, got) that differs."""
    return [f"{what}: expected {expected}, got {got}" for what, expected, got in lines if expected != got]
