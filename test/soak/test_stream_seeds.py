"""Random streams with the node's processing: no command breaks an invariant.

`python -m soak --random` runs 1,000 of them; `--seed` shows any one of them.
"""

from __future__ import annotations

import pytest

from soak.streams.command import Task, judged

pytestmark = pytest.mark.slow
SEEDS, GROUP = 10, 5
KINDS = WITH, WITHOUT = "with the controller's state", "without it"
FAILED_ONCE = {
    WITH: (76429, 81140, 87456, 87682, 90166, 110625, 700149, 2000248, 3100040, 3101096, 3101231, 5400411, 5600783,
           7030, 70603, 71848,
           5800264, 6000108, 6000678, 6201381),
    WITHOUT: (76286, 84408, 84715, 86111, 110773, 3200088, 5100032, 5900343, 5900822, 114714),
}  # fmt: skip
"""Streams that once broke an invariant."""


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in FAILED_ONCE.items() for seed in seeds])
def test_streams_that_failed_once_keep_all_invariants(kind: str, seed: int) -> None:
    assert not judged(Task(seed, {}, kind is WITH)).failures


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
@pytest.mark.parametrize("kind", KINDS)
def test_random_streams_keep_all_invariants(kind: str, first: int) -> None:
    tasks = [Task(seed, {}, kind is WITH) for seed in range(first, first + GROUP)]
    found = [str(failure) for task in tasks for failure in judged(task).failures]
    assert not found, "\n".join([*found, "again: python -m soak --random --seed N"])
