"""Arithmetic of PTX on arrays, one number for each lane: what an opcode computes from operands of which types.

Opcodes that take a third operand at times have an entry for it, with the count behind the name.

Rounding is PTX's. Fused products of float32 are rounded once, exactly; those of float64 are computed in the longest
type of the machine. Approximate instructions are off by a random part of the error that the PTX manual allows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

# Types as they lie in registers. A pair of float32 is seen as twice as many numbers; bfloat16 has no type in numpy.
DTYPES = {
    "pred": np.bool_, "b16": np.uint16, "u16": np.uint16, "s16": np.int16, "b32": np.uint32, "u32": np.uint32,
    "s32": np.int32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f16": np.float16, "bf16": np.uint16,
    "f32": np.float32, "f64": np.float64, "f32x2": np.float32,
}  # fmt: skip
FULL_DIVISION_ULPS = 2
"""Largest error of `div.full.f32`, units in the last place."""


class Operation(NamedTuple):
    """What an opcode computes."""

    result: str
    operands: tuple[str, ...]
    compute: Callable[..., np.ndarray]


def fused(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return x y + z, rounded once: a product of float32 is exact in float64, and the sum is rounded to odd there."""
    if x.dtype == np.float64:
        return (x.astype(np.longdouble) * y + z).astype(np.float64)
    made = x.astype(np.float64) * y
    total = made + z
    part = total - made
    lost = (made - (total - part)) + (z - part)
    total = np.atleast_1d(total)
    bits = total.view(np.int64)
    is_even = (np.abs(lost) > 0) & (bits & 1 == 0)
    bits += np.where(is_even, np.where((lost > 0) == (total > 0), 1, -1), 0)
    return total.astype(np.float32)


def from_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Widen to float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Round to the nearest, ties to even."""
    bits = np.atleast_1d(x).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), np.uint32(0x7FFF), rounded).astype(np.uint16)


def roughly_divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A quotient of float32 that is off by up to two units in the last place, at random."""
    exact = np.atleast_1d(x / y)
    off = _RANDOM.integers(-FULL_DIVISION_ULPS, FULL_DIVISION_ULPS + 1, exact.shape)
    return np.where(np.isfinite(exact), exact + off.astype(np.float32) * np.spacing(exact), exact).astype(np.float32)


def shifted_left(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Shift left; by the width or more gives 0."""
    most = x.dtype.itemsize * 8 - 1
    return np.where(by > most, x.dtype.type(0), x << np.minimum(by, most).astype(x.dtype))


def shifted_right(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Shift right; by the width or more leaves only signs."""
    most = x.dtype.itemsize * 8 - 1
    shifted = x >> np.minimum(by, most).astype(x.dtype)
    return shifted if x.dtype.kind == "i" else np.where(by > most, x.dtype.type(0), shifted)


def field(x: np.ndarray, begin: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Bits from one on (`bfe`), the last of them the sign of signed numbers; they end in the register."""
    above = np.uint32(8 * x.dtype.itemsize) - length
    return shifted_right(shifted_left(x, above - begin), above)


def _wide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x.astype(f"{x.dtype.kind}8") * y.astype(f"{x.dtype.kind}8")


def _ordered(compare: Callable) -> Callable:
    return lambda x, y: compare(x, y) & ~(np.isnan(x) | np.isnan(y))


def _unordered(compare: Callable) -> Callable:
    return lambda x, y: compare(x, y) | np.isnan(x) | np.isnan(y)


def _table() -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    floats, whole = ("f32", "f64"), ("s32", "u32", "s64", "u64")
    plain = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
    compares = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}

    def each(opcode: str, kinds: tuple[str, ...], operands: str, compute: Callable, result: str = "{0}") -> None:
        """Add an opcode for kinds of numbers, which stand for {0}; {1} is as many bits again."""
        for kind in kinds:
            names = kind, kind.replace("32", "64")
            given = tuple(operands.format(*names).split())
            found[opcode.format(kind)] = Operation(result.format(*names), given, compute)

    for name, compute in plain.items():
        each(f"{name}.rn.{{}}", (*floats, "f32x2"), "{0} {0}", compute)
    each("fma.rn.{}", (*floats, "f32x2"), "{0} {0} {0}", fused)
    for kind, widen in (("f16", lambda x: x.astype(np.float32)), ("bf16", from_bfloat16)):
        each("cvt.f32.{}", (kind,), "{0}", widen, "f32")
        for name in ("add", "sub"):
            compute = lambda x, y, widen=widen, compute=plain[name]: compute(widen(x), y)  # noqa: E731
            each(f"{name}.rn.f32.{{}}", (kind,), "{0} f32", compute, "f32")
    each("div.rn.{}", floats, "{0} {0}", operator.truediv)
    each("div.full.{}", ("f32",), "{0} {0}", roughly_divided)
    each("abs.{}", floats, "{0}", np.abs)
    each("neg.{}", (*floats, *whole), "{0}", np.negative)
    each("copysign.{}", floats, "{0} {0}", lambda sign, size: np.copysign(size, sign))
    for name, of_floats, of_whole in (("min", np.fmin, np.minimum), ("max", np.fmax, np.maximum)):
        each(f"{name}.{{}}", floats, "{0} {0}", of_floats)
        each(f"{name}.{{}} 3", floats, "{0} {0} {0}", lambda x, y, z, two=of_floats: two(two(x, y), z))
        each(f"{name}.{{}}", whole, "{0} {0}", of_whole)
    each("min.relu.{}", ("s32",), "{0} {0}", lambda x, y: np.maximum(np.minimum(x, y), np.int32(0)))
    for name, compare in compares.items():
        each(f"setp.{name}.{{}}", floats, "{0} {0}", _ordered(compare), "pred")
        each(f"setp.{name}u.{{}}", floats, "{0} {0}", _unordered(compare), "pred")
        bits = ("b16", "b32", "b64") if name in ("eq", "ne") else ()
        each(f"setp.{name}.{{}}", (*whole, *bits), "{0} {0}", compare, "pred")
    for name in ("add", "sub"):
        each(f"{name}.{{}}", whole, "{0} {0}", plain[name])
    each("mul.lo.{}", whole, "{0} {0}", operator.mul)
    each("mad.lo.{}", whole, "{0} {0} {0}", lambda x, y, z: x * y + z)
    each("mul.wide.{}", whole[:2], "{0} {0}", _wide, "{1}")
    each("mad.wide.{}", whole[:2], "{0} {0} {1}", lambda x, y, z: _wide(x, y) + z, "{1}")
    each("mul.hi.{}", whole[:2], "{0} {0}", lambda x, y: (_wide(x, y) >> 32).astype(x.dtype))
    each("shr.{}", whole, "{0} u32", shifted_right)
    each("bfe.{}", whole[:2], "{0} u32 u32", field)
    for name, compute in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        each(f"{name}.{{}}", ("b16", "b32", "b64", "pred"), "{0} {0}", compute)
    each("not.{}", ("b16", "b32", "b64", "pred"), "{0}", np.invert)
    each("shl.{}", ("b16", "b32", "b64"), "{0} u32", shifted_left)
    every = ("b16", "b32", "b64", "u16", "u32", "u64", "s32", "s64", *floats, "pred")
    each("mov.{}", every, "{0}", np.array)
    each("selp.{}", every, "{0} {0} pred", lambda x, y, chosen: np.where(chosen, x, y))
    each("cvt.f64.{}", ("f32",), "{0}", _to("f64"), "f64")
    for kind in (*floats, "f16"):
        others = {"f32": (*whole, "f64"), "f64": whole, "f16": ("f32",)}[kind]
        each(f"cvt.rn.{kind}.{{}}", others, "{0}", _to(kind), kind)
    each("cvt.rn.bf16.{}", ("f32",), "{0}", to_bfloat16, "bf16")
    for kind in whole:
        each(f"cvt.{kind}.{{}}", tuple({*whole} - {kind}), "{0}", _to(kind), kind)
    return found


def _to(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.astype(DTYPES[kind])


_RANDOM = np.random.default_rng(0)
OPERATIONS = _table()
