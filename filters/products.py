"""Inner products by compiled code: many of vectors in 8 bits, a few of floats in double precision.

It needs numba and a processor with AVX2 (`available`); `filters.nearest` does without where there is neither.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

# Greatest numbers of a row and of a vector. Sums of two products are held in 16 bits, and of so many as fit.
ROW, VECTOR = 63, 31
_STEPS = 4
assert 2 * (2 * ROW + 1) * VECTOR * _STEPS < 1 << 15
# Vectors stand in groups of 8, one to each 32 bits of a register, by four numbers in turn.
GROUP, DEPTH = 8, 4
# Products are worked out for so many rows and groups at once: as many as the 16 registers hold.
ROWS, _GROUPS = 4, 2
TILE = GROUP * _GROUPS
WIDTH = DEPTH * _STEPS  # the width of vectors is a multiple
_BLOCK = 8 * _GROUPS  # groups that all rows meet before the next ones come: they stay in the cache


@functools.cache
def available() -> bool:
    return bool(binding.get_host_cpu_features().get("avx2"))


def pack(vectors: NDArray[np.int8]) -> NDArray[np.int8]:
    """(v, w) → (v / 8, w / 4, 8, 4), as `approximate` reads them."""
    count, width = vectors.shape
    return np.ascontiguousarray(vectors.reshape(count // GROUP, GROUP, width // DEPTH, DEPTH).transpose(0, 2, 1, 3))


def _products(
    _: Any, rows: Any, groups: Any, start: Any, scale: Any, base: Any, factors: Any, steps: Any, out: Any, stride: Any
) -> Any:
    """Writes the (ROWS, TILE) products of rows and groups from two addresses on; rows of `out` lie `stride` octets apart."""
    signature = types.void(rows, groups, start, scale, base, factors, steps, out, stride)
    octet, half, single, word, real = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64), ir.FloatType()
    octets, halves, singles, reals = (
        ir.VectorType(kind, 32 // size) for kind, size in ((octet, 1), (half, 2), (single, 4), (real, 4))
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, groups, start, scale, base, factors, steps, out, stride = arguments
        function = functools.partial(cgutils.get_or_insert_function, builder.module)
        multiply_octets = function(ir.FunctionType(halves, [octets, octets]), "llvm.x86.avx2.pmadd.ub.sw")
        multiply_halves = function(ir.FunctionType(singles, [halves, halves]), "llvm.x86.avx2.pmadd.wd")
        ones = ir.Constant(halves, [1] * halves.count)

        def at(address: Any, *offsets: Any) -> Any:
            for offset in offsets:
                address = builder.add(address, word(offset) if isinstance(offset, int) else offset)
            return address

        def load(address: Any, kind: Any) -> Any:
            loaded = builder.load(builder.inttoptr(address, kind.as_pointer()))
            loaded.align = 1
            return loaded

        def repeat(value: Any, kind: Any) -> Any:
            undefined = ir.Constant(kind, ir.Undefined)
            first = builder.insert_element(undefined, value, single(0))
            return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(single, kind.count), [0] * kind.count))

        pairs = [(r, g) for r in range(ROWS) for g in range(_GROUPS)]
        before, loop, done = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
        initial = [load(at(start, 32 * g), singles) for g in range(_GROUPS)]
        builder.branch(loop)
        builder.position_at_end(loop)
        step = builder.phi(word)
        step.add_incoming(word(0), before)
        running = [builder.phi(singles) for _ in pairs]
        sums: list[Any] = [None] * len(pairs)
        for s in range(_STEPS):
            far = builder.add(step, word(s))
            those = [
                load(at(groups, builder.mul(steps, word(32 * g)), builder.mul(far, word(32))), octets) for g in range(_GROUPS)
            ]
            four = [
                load(at(rows, builder.mul(steps, word(DEPTH * r)), builder.mul(far, word(DEPTH))), single) for r in range(ROWS)
            ]
            these = [builder.bitcast(repeat(value, singles), octets) for value in four]
            for i, (r, g) in enumerate(pairs):
                product = builder.call(multiply_octets, [these[r], those[g]])
                sums[i] = builder.add(sums[i], product) if s else product
        totals = [builder.add(a, builder.call(multiply_halves, [b, ones])) for a, b in zip(running, sums, strict=True)]
        following = builder.add(step, word(_STEPS))
        step.add_incoming(following, loop)
        for (_, g), one, total in zip(pairs, running, totals, strict=True):
            one.add_incoming(initial[g], before)
            one.add_incoming(total, loop)
        builder.cbranch(builder.icmp_signed("<", following, steps), loop, done)
        builder.position_at_end(done)
        for (r, g), total in zip(pairs, totals, strict=True):
            factor, shift = (repeat(load(at(factors, 8 * r + n), real), reals) for n in (0, 4))
            scaled = builder.fmul(builder.fmul(builder.sitofp(total, reals), load(at(scale, 32 * g), reals)), factor)
            value = builder.fadd(scaled, builder.fmul(load(at(base, 32 * g), reals), shift))
            place = at(out, builder.mul(stride, word(r)), 32 * g)
            builder.store(value, builder.inttoptr(place, reals.as_pointer())).align = 4
        return context.get_dummy_value()

    return signature, generate


_tile: Any = intrinsic(_products)


@njit(nogil=True, error_model="numpy", cache=True)
def approximate(rows: Any, factors: Any, packed: Any, start: Any, scale: Any, base: Any, out: Any) -> None:
    """Fills `out` (n, v) with `factor · scale · (⟨row, vector⟩ + start) + shift · base`, float32.

    Rows (n, w) are uint8 of up to 2 · ROW + 1, n a multiple of ROWS; `factors` (n, 2) float32 their factor and shift;
    `packed` (v / 8, w / 4, 8, 4) int8 of up to ± VECTOR, v a multiple of TILE, w of WIDTH; `start` int32, `scale` and `base`
    float32 (v,). All are contiguous.
    """
    steps = packed.shape[1]
    for first in range(0, len(packed), _BLOCK):
        for i in range(0, len(rows), ROWS):
            for g in range(first, min(first + _BLOCK, len(packed)), _GROUPS):
                _tile(
                    rows.ctypes.data + i * DEPTH * steps,
                    packed.ctypes.data + g * 32 * steps,
                    start.ctypes.data + 32 * g,
                    scale.ctypes.data + 32 * g,
                    base.ctypes.data + 32 * g,
                    factors.ctypes.data + 8 * i,
                    steps,
                    out.ctypes.data + 4 * (i * out.shape[1] + GROUP * g),
                    4 * out.shape[1],
                )


@njit(nogil=True, error_model="numpy", cache=True, fastmath={"reassoc", "contract"})
def exact(rows: Any, vectors: Any, which_rows: Any, which_vectors: Any, out: Any) -> None:
    """Fills `out` (m,) with the products of m rows and vectors, float32, summed in double precision in whatever order."""
    for i in range(len(out)):
        row, vector, total = rows[which_rows[i]], vectors[which_vectors[i]], 0.0
        for j in range(len(row)):
            total += np.float64(row[j]) * np.float64(vector[j])
        out[i] = total
