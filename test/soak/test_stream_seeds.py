"""Random streams with the node's processing: nothing that the controller commands breaks an invariant.

`python -m soak --random` runs 1,000 of them; `--seed` shows any one of them.
"""

from __future__ import annotations

import pytest

from soak.streams.command import Task, judged
from soak.streams.model import FOLDER
from soak.streams.scenes import Kind

pytestmark = pytest.mark.slow
SEEDS, GROUP = 50, 10
WITH, WITHOUT = "with the controller's state", "without it"
KINDS = {WITH: Kind(), WITHOUT: Kind(with_state=False, encoder=False, droop=False, restarts=False)}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
@pytest.mark.parametrize("kind", KINDS)
def test_random_streams_keep_all_invariants(kind: str, first: int) -> None:
    tasks = [Task(seed, KINDS[kind], not seed % 25, {}, FOLDER) for seed in range(first, first + GROUP)]
    found = [str(failure) for task in tasks for failure in judged(task).failures]
    assert not found, "\n".join([*found, "again: python -m soak --random --seed N"])
