"""LLVM vectors of 16 floats, from which kernels build their innermost loops as numba intrinsics.

A vector is one register of AVX-512, two of AVX2, four of NEON: LLVM cuts it as the host needs. The
functions emit code through an ``IRBuilder``; values are LLVM values, rows are pointers to floats.

Numba's cache compares the time of the file that holds the compiled function, not of this one: after
a change here, touch the kernels that use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

LANES = 16
FLOAT, INT32, INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
VECTOR, INTEGERS = ir.VectorType(FLOAT, LANES), ir.VectorType(INT32, LANES)

Matrix = NDArray[np.float32]


def aligned(matrix: Matrix) -> Matrix:
    """(V, P) a copy whose rows begin on cache lines and are filled up with zeros."""
    rows, width = matrix.shape
    padded = -(-width // LANES) * LANES
    memory = np.zeros(rows * padded + LANES, np.float32)
    skip = -memory.ctypes.data % 64 // 4
    table = memory[skip : skip + rows * padded].reshape(rows, padded)
    table[:, :width] = matrix
    return table


def compiled(function: Callable[..., Any]) -> Any:
    """A function compiled at its first call, kept on disk, that leaves the global lock alone."""
    try:
        return njit(nogil=True, cache=True)(function)
    except RuntimeError:  # neither the folder of the file nor the user's cache can be written
        return njit(nogil=True)(function)


def columns(builder: Any, width: Any) -> AbstractContextManager[Any]:
    """A loop over the first columns of the vectors in a row of ``width`` floats."""
    loop: AbstractContextManager[Any] = cgutils.for_range_slice(
        builder, INT64(0), width, INT64(LANES)
    )
    return loop


def load(builder: Any, row: Any, offset: Any) -> Any:
    """The vector at an offset of a row; no alignment is asked for."""
    place = builder.bitcast(builder.gep(row, [offset]), VECTOR.as_pointer())
    return builder.load(place, align=4)


def store(builder: Any, vector: Any, row: Any, offset: Any) -> None:
    """Write a vector at an offset of a row."""
    place = builder.bitcast(builder.gep(row, [offset]), VECTOR.as_pointer())
    builder.store(vector, place, align=4)


def splat(value: float) -> ir.Constant:
    """The same number in all lanes."""
    return ir.Constant(VECTOR, [value] * LANES)


def broadcast(builder: Any, scalar: Any) -> Any:
    """The same LLVM value in all lanes."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    single = builder.insert_element(undefined, scalar, INT32(0))
    return builder.shuffle_vector(single, undefined, ir.Constant(INTEGERS, [0] * LANES))


def fma(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c``, fused where the host can."""
    return _call(builder, "fmuladd.v16f32", a, b, c)


def total(builder: Any, vector: Any) -> Any:
    """The sum of the lanes."""
    zero = ir.Constant(FLOAT, -0.0)
    return _call(builder, "vector.reduce.fadd.v16f32", zero, vector, returns=FLOAT)


def sigmoid_and_loss(builder: Any, z: Any) -> tuple[Any, Any]:
    """``1 / (1 + exp(-z))`` and ``log(1 + exp(z))``, to a few units in the last place.

    Both come from ``t = exp(-|z|)``, which never overflows. Where z is not finite, the loss is not.
    """
    magnitude = _call(builder, "fabs.v16f32", z)
    power = builder.fmul(magnitude, splat(-1 / math.log(2)))
    power = _call(builder, "maxnum.v16f32", power, splat(-126.0))
    whole = _call(builder, "rint.v16f32", power)
    # 2 ** power: Taylor's series for the rest in [-0.5, 0.5], the whole part into the exponent.
    taylor = [math.log(2) ** k / math.factorial(k) for k in range(7)]
    rest = _polynomial(builder, builder.fsub(power, whole), taylor)
    biased = builder.fptosi(builder.fadd(whole, splat(127.0)), INTEGERS)
    exponent = builder.shl(biased, ir.Constant(INTEGERS, [23] * LANES))
    t = builder.fmul(rest, builder.bitcast(exponent, VECTOR))
    numerator = builder.select(builder.fcmp_ordered(">=", z, splat(0.0)), splat(1.0), t)
    sigmoid = builder.fdiv(numerator, builder.fadd(splat(1.0), t))
    # log(1 + t) = 2 artanh(s), where s = t / (2 + t) is at most 1/3.
    s = builder.fdiv(t, builder.fadd(splat(2.0), t))
    artanh = _polynomial(builder, builder.fmul(s, s), [2 / (2 * k + 1) for k in range(7)])
    above = builder.fmul(builder.fadd(magnitude, z), splat(0.5))
    return sigmoid, fma(builder, s, artanh, above)


def _polynomial(builder: Any, x: Any, coefficients: Sequence[float]) -> Any:
    value = splat(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = fma(builder, value, x, splat(coefficient))
    return value


def _call(builder: Any, name: str, *operands: Any, returns: Any = VECTOR) -> Any:
    kind = ir.FunctionType(returns, [operand.type for operand in operands])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}")
    # The lanes may be summed in any order, but it is the same order every time.
    flags = ("reassoc",) if "reduce" in name else ()
    return builder.call(function, operands, fastmath=flags)


def _fetching(write: int) -> Callable[..., Any]:
    """What ``intrinsic`` wants of a prefetch of a row, to read it or to write to it."""

    def typing(_: Any, matrix: Any, place: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(signature.args[0])(context, builder, args[0])
            purpose, second_level, data = INT32(write), INT32(2), INT32(1)
            with columns(builder, builder.extract_value(array.shape, 1)) as (column, _):
                line = builder.gep(array.data, [builder.add(args[1], column)])
                how = line, purpose, second_level, data
                _call(builder, "prefetch.p0", *how, returns=ir.VoidType())
            return context.get_dummy_value()

        return types.void(matrix, place), generate

    return typing


@intrinsic
def fetch(context: Any, matrix: Any, place: Any) -> Any:
    """Have the row that begins at an element of a matrix brought into the second-level cache."""
    return _fetching(0)(context, matrix, place)


@intrinsic
def fetch_to_write(context: Any, matrix: Any, place: Any) -> Any:
    """The same, and taken from all other cores."""
    return _fetching(1)(context, matrix, place)
