"""Every map on arrays that end where memory ends, as a program of its own: one byte too far is a segmentation fault."""

from __future__ import annotations

import ctypes
import itertools
import mmap

import numpy as np

from traj_integrator_ros.kernels import native

LIBC = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE


class Wall:
    """Arrays that end at the last byte before a forbidden page, and arrays that begin at the first byte after one."""

    def __init__(self) -> None:
        self._maps: list[mmap.mmap] = []

    def array(self, shape: tuple[int, ...], dtype: type, *, at_the_start: bool) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        pages = -(-size // PAGE)
        memory = mmap.mmap(-1, (pages + 2) * PAGE)
        self._maps.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in (0, pages + 1):
            assert LIBC.mprotect(ctypes.c_void_p(start + page * PAGE), PAGE, 0) == 0
        offset = PAGE if at_the_start else (pages + 1) * PAGE - size
        array = np.frombuffer(memory, dtype, int(np.prod(shape)), offset).reshape(shape)
        array[...] = np.random.default_rng(0).random(shape)
        return array


def main() -> None:
    """Run every map with sizes around those of vectors and blocks."""
    sizes = itertools.product((2,), (1, 2, 33), (1, 6, 7, 8, 9, 21))
    for (batch, horizon, dof), dtype, first in itertools.product(sizes, (np.float32, np.float64), (False, True)):
        for number in range(6):
            wall = Wall()

            def array(*shape: int, dtype: type = dtype, wall: Wall = wall, first: bool = first) -> np.ndarray:
                return wall.array(shape, dtype, at_the_start=first)

            rows = horizon + 4 * (number == 1)
            start = [array(1, dof) for _ in range(3)]
            dt = array(1, 1, dtype=np.float64)
            dt[...] = 0.1
            action, out = array(batch, horizon, dof), array(4, batch, rows, dof)
            native.forward(number, (action, *start), None, dt, out)
            upstream = tuple(array(batch, rows, dof) for _ in range(4))
            into = array(batch, horizon, dof), *(array(batch, dof) for _ in range(3))
            native.vjp(number, upstream, None, dt, False, False, into)
            native.vjp(number, (upstream[0], None, None, upstream[3]), None, dt, False, False, into)


if __name__ == "__main__":
    main()
