"""The greatest inner products of vectors of 16-bit whole numbers, by compiled code: half the time of a product in floats.

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

TOP = 4  # of each row's products so many are remembered
LANES = 16  # numbers in a register; the width of vectors is a multiple
# Products are worked out for so many rows and vectors at once, as many as the 16 registers hold.
_ROWS, _VECTORS = 4, 2
_BLOCK = 64  # vectors that all rows meet before the next ones come: they stay in the cache
LOWEST = -(2**31)


@functools.cache
def available() -> bool:
    return bool(binding.get_host_cpu_features().get("avx2"))


def _products(_: Any, rows: Any, vectors: Any, width: Any) -> Any:
    """(rows × vectors,) int32 products of the rows and vectors from two addresses on, each of `width` numbers."""
    signature = types.UniTuple(types.int32, _ROWS * _VECTORS)(rows, vectors, width)  # type: ignore[no-untyped-call]
    word, half, single = ir.IntType(64), ir.IntType(16), ir.IntType(32)
    numbers, sums = ir.VectorType(half, LANES), ir.VectorType(single, LANES // 2)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first_row, first_vector, width = arguments
        multiply_add = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(sums, [numbers, numbers]), "llvm.x86.avx2.pmadd.wd"
        )
        octets = builder.mul(width, word(2))
        before, loop, done = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        at = builder.phi(word)
        at.add_incoming(word(0), before)
        running = [builder.phi(sums) for _ in range(_ROWS * _VECTORS)]

        def load(start: Any, index: int) -> Any:
            address = builder.add(builder.add(start, builder.mul(octets, word(index))), builder.mul(at, word(2)))
            loaded = builder.load(builder.inttoptr(address, numbers.as_pointer()))
            loaded.align = 2
            return loaded

        those = [load(first_vector, i) for i in range(_VECTORS)]
        totals = []
        for r in range(_ROWS):
            row = load(first_row, r)
            totals += [
                builder.add(running[r * _VECTORS + i], builder.call(multiply_add, [row, those[i]])) for i in range(_VECTORS)
            ]
        following = builder.add(at, word(LANES))
        at.add_incoming(following, loop)
        for one, total in zip(running, totals, strict=True):
            one.add_incoming(ir.Constant(sums, [0] * (LANES // 2)), before)
            one.add_incoming(total, loop)
        builder.cbranch(builder.icmp_signed("<", following, width), loop, done)
        builder.position_at_end(done)
        return context.make_tuple(builder, signature.return_type, [_sum(builder, total) for total in totals])

    return signature, generate


_tile: Any = intrinsic(_products)


def _sum(builder: Any, vector: Any) -> Any:
    """Code that adds up a vector's numbers, half to half."""
    single = ir.IntType(32)
    count = vector.type.count
    while count > 1:
        count //= 2
        anything = ir.Constant(vector.type, ir.Undefined)
        halves = [
            builder.shuffle_vector(vector, anything, ir.Constant(ir.VectorType(single, count), list(range(s, s + count))))
            for s in (0, count)
        ]
        vector = builder.add(*halves)
    return builder.extract_element(vector, single(0))


@njit(nogil=True, error_model="numpy", cache=True)
def _insert(products: Any, which: Any, product: int, vector: int) -> None:
    place = TOP
    while place > 0 and product > products[place - 1]:
        if place < TOP:
            products[place] = products[place - 1]
            which[place] = which[place - 1]
        place -= 1
    if place < TOP:
        products[place] = product
        which[place] = vector


@njit(nogil=True, error_model="numpy", cache=True)
def greatest(rows: NDArray[np.int16], vectors: NDArray[np.int16], count: int, products: Any, which: Any) -> None:
    """Fills `products` and `which` (n, TOP) with each row's greatest products, descending, and their vectors.

    Rows (n, w) and vectors (v, w) are contiguous; n is a multiple of 4, v of 2, w of 16, and vectors from `count` on are
    not meant. `products` holds `LOWEST` at first. No product may exceed 31 bits.
    """
    n, width = rows.shape
    for start in range(0, len(vectors), _BLOCK):
        end = min(start + _BLOCK, len(vectors))
        for i in range(0, n, _ROWS):
            address = rows.ctypes.data + 2 * i * width
            lowest = products[i, TOP - 1], products[i + 1, TOP - 1], products[i + 2, TOP - 1], products[i + 3, TOP - 1]
            for j in range(start, end, _VECTORS):
                tile = _tile(address, vectors.ctypes.data + 2 * j * width, width)
                if (
                    max(tile[0], tile[1]) > lowest[0]
                    or max(tile[2], tile[3]) > lowest[1]
                    or max(tile[4], tile[5]) > lowest[2]
                    or max(tile[6], tile[7]) > lowest[3]
                ):
                    for r in range(_ROWS):
                        for v in range(_VECTORS):
                            if j + v < count:
                                _insert(products[i + r], which[i + r], tile[r * _VECTORS + v], j + v)
                    lowest = products[i, TOP - 1], products[i + 1, TOP - 1], products[i + 2, TOP - 1], products[i + 3, TOP - 1]
