"""Random streams with the node's processing: no command breaks an invariant.

`python -m soak --random` runs 1,000 of them; `--seed` shows any one of them.
"""

from __future__ import annotations

import pytest

from soak.streams.command import Task, judged

pytestmark = pytest.mark.slow
WITH, WITHOUT = "with the controller's state", "without it"
KINDS = {
    WITH: (76429, 81140, 90166, 6000678),
    WITHOUT: (84408, 5100032),
}
"""Streams that once broke an invariant, of different kinds."""
OTHERS = {
    WITH: (7030, 70603, 71848, 87456, 87682, 110625, 700149, 2000248, 3100040, 3101096, 3101231, 5400411, 5600783,
           5800264, 6000108, 6201381),
    WITHOUT: (76286, 84715, 86111, 110773, 114714, 3200088, 5900343, 5900822),
}  # fmt: skip
"""The others that once did so."""


def of_kinds(seeds: dict[str, tuple[int, ...]], *marks: pytest.MarkDecorator) -> list:
    return [pytest.param(kind, seed, marks=marks) for kind, its in seeds.items() for seed in its]


@pytest.mark.parametrize(("kind", "seed"), of_kinds(KINDS) + of_kinds(OTHERS, pytest.mark.thorough))
def test_no_command_of_a_stream_breaks_an_invariant(kind: str, seed: int) -> None:
    assert not judged(Task(seed, {}, kind is WITH)).failures
