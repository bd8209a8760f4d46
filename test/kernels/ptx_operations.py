"""Arithmetic of PTX on arrays, one number for each lane: what an opcode computes from operands of which types.

Opcodes that take a third operand at times have an entry for it, with the count behind the name.

Rounding is PTX's. Fused products of float32 are rounded once, exactly; those of float64 are computed in the longest
type of the machine. Approximate instructions are off by a random part of the error that the PTX manual allows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product
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
    plain = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
    compares = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
    for kind, (name, compute) in product(("f32", "f64", "f32x2"), plain.items()):
        found[f"{name}.rn.{kind}"] = Operation(kind, (kind, kind), compute)
    for kind in ("f32", "f64", "f32x2"):
        found[f"fma.rn.{kind}"] = Operation(kind, (kind,) * 3, fused)
    for kind, widen in (("f16", lambda x: x.astype(np.float32)), ("bf16", from_bfloat16)):
        for name in ("add", "sub"):
            found[f"{name}.rn.f32.{kind}"] = Operation(
                "f32", (kind, "f32"), lambda x, y, widen=widen, compute=plain[name]: compute(widen(x), y)
            )
        found[f"cvt.f32.{kind}"] = Operation("f32", (kind,), widen)
    for kind in ("f32", "f64"):
        found[f"div.rn.{kind}"] = Operation(kind, (kind, kind), operator.truediv)
        found[f"abs.{kind}"] = Operation(kind, (kind,), np.abs)
        found[f"neg.{kind}"] = Operation(kind, (kind,), np.negative)
        for name, compute in (("min", np.fmin), ("max", np.fmax)):
            found[f"{name}.{kind}"] = Operation(kind, (kind, kind), compute)
            found[f"{name}.{kind} 3"] = Operation(
                kind, (kind,) * 3, lambda x, y, z, compute=compute: compute(compute(x, y), z)
            )
        found[f"copysign.{kind}"] = Operation(kind, (kind, kind), lambda sign, size: np.copysign(size, sign))
        for name, compare in compares.items():
            found[f"setp.{name}.{kind}"] = Operation("pred", (kind, kind), _ordered(compare))
            found[f"setp.{name}u.{kind}"] = Operation("pred", (kind, kind), _unordered(compare))
        for whole in ("s32", "u32", "s64", "u64"):
            found[f"cvt.rn.{kind}.{whole}"] = Operation(kind, (whole,), _to(kind))
    found["div.full.f32"] = Operation("f32", ("f32", "f32"), roughly_divided)
    found["cvt.f64.f32"] = Operation("f64", ("f32",), _to("f64"))
    found["cvt.rn.f32.f64"] = Operation("f32", ("f64",), _to("f32"))
    found["cvt.rn.f16.f32"] = Operation("f16", ("f32",), _to("f16"))
    found["cvt.rn.bf16.f32"] = Operation("bf16", ("f32",), to_bfloat16)
    for kind in ("s32", "u32", "s64", "u64"):
        for name in ("add", "sub"):
            found[f"{name}.{kind}"] = Operation(kind, (kind, kind), plain[name])
        found[f"mul.lo.{kind}"] = Operation(kind, (kind, kind), operator.mul)
        found[f"mad.lo.{kind}"] = Operation(kind, (kind,) * 3, lambda x, y, z: x * y + z)
        found[f"min.{kind}"] = Operation(kind, (kind, kind), np.minimum)
        found[f"max.{kind}"] = Operation(kind, (kind, kind), np.maximum)
        found[f"shr.{kind}"] = Operation(kind, (kind, "u32"), shifted_right)
        found[f"neg.{kind}"] = Operation(kind, (kind,), np.negative)
        for name, compare in compares.items():
            found[f"setp.{name}.{kind}"] = Operation("pred", (kind, kind), compare)
        for other in {"s32", "u32", "s64", "u64"} - {kind}:
            found[f"cvt.{kind}.{other}"] = Operation(kind, (other,), _to(kind))
    for kind in ("s32", "u32"):
        double = kind.replace("32", "64")
        found[f"mul.wide.{kind}"] = Operation(double, (kind, kind), _wide)
        found[f"mad.wide.{kind}"] = Operation(double, (kind, kind, double), lambda x, y, z: _wide(x, y) + z)
        found[f"mul.hi.{kind}"] = Operation(
            kind, (kind, kind), lambda x, y: (_wide(x, y) >> 32).astype(x.dtype)
        )
    found["min.relu.s32"] = Operation("s32", ("s32", "s32"), lambda x, y: np.maximum(np.minimum(x, y), np.int32(0)))
    for kind in ("s32", "u32"):
        found[f"bfe.{kind}"] = Operation(kind, (kind, "u32", "u32"), field)
    for kind in ("b16", "b32", "b64", "pred"):
        for name, compute in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
            found[f"{name}.{kind}"] = Operation(kind, (kind, kind), compute)
        found[f"not.{kind}"] = Operation(kind, (kind,), np.invert)
        if kind != "pred":
            found[f"shl.{kind}"] = Operation(kind, (kind, "u32"), shifted_left)
            for name in ("eq", "ne"):
                found[f"setp.{name}.{kind}"] = Operation("pred", (kind, kind), compares[name])
    for kind in ("b16", "b32", "b64", "u16", "u32", "u64", "s32", "s64", "f32", "f64", "pred"):
        found[f"mov.{kind}"] = Operation(kind, (kind,), np.array)
        found[f"selp.{kind}"] = Operation(kind, (kind, kind, "pred"), lambda x, y, chosen: np.where(chosen, x, y))
    return found


def _to(kind: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.astype(DTYPES[kind])


_RANDOM = np.random.default_rng(0)
OPERATIONS = _table()
