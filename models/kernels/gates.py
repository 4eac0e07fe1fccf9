"""What an LSTM does to each element of a step, in one pass over memory.

The plain reference is the torch code of ``models.recurrent``, which these kernels stand in for in
training: sigmoid, tanh and a dozen products, each a pass of its own, take as long there as a third
of the step's products of matrices. Numbers are float32, or bfloat16 as uint16; results are rounded
where torch rounds them, so that both agree to the last bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from models.kernels.lanes import compiled

Numbers = NDArray[Any]
"""float32, or uint16 that are bfloat16."""

_ONE, _TWO, _MANY = np.float32(1), np.float32(2), np.float32(87)
_LOG2_E = np.float32(1.4426950408889634)
# ln 2 in two parts, the first of few bits, so that a whole number of them is exact.
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# Added to a number, it leaves a whole one in the low bits.
_ROUND, _BIAS = np.float32(12582912), np.int32(0x4B400000 - 127)
_EXP = [np.float32(c) for c in (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1, 1)]
_E7, _E6, _E5, _E4, _E3, _E2, _E1, _E0 = _EXP
_TANH = [np.float32(c) for c in (-1 / 3, 2 / 15, -17 / 315, 62 / 2835)]
_T3, _T5, _T7, _T9 = _TANH
_SMALL = np.float32(0.25)


@intrinsic
def _float(_: Any, bits: Any) -> Any:
    """The float32 of 32 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic
def _bits(_: Any, number: Any) -> Any:
    """The 32 bits of a float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic
def _inverse(_: Any, number: Any) -> Any:
    """1 / x without a look at whether x is 0, which would keep the loop from being vectors."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fdiv(ir.Constant(ir.FloatType(), 1.0), args[0])

    return types.float32(types.float32), generate


@intrinsic
def _wide(_: Any, number: Any) -> Any:
    """A number as float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if signature.args[0] == types.float32:
            return args[0]
        word = builder.zext(args[0], ir.IntType(32))
        return builder.bitcast(builder.shl(word, ir.IntType(32)(16)), ir.FloatType())

    return types.float32(number), generate


@intrinsic
def _as(_: Any, value: Any, like: Any) -> Any:
    """A float32 rounded to the kind of another number, ties to even."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if signature.args[1] == types.float32:
            return args[0]
        integer = ir.IntType(32)
        word = builder.bitcast(args[0], integer)
        odd = builder.and_(builder.lshr(word, integer(16)), integer(1))
        word = builder.add(word, builder.add(odd, integer(0x7FFF)))
        return builder.trunc(builder.lshr(word, integer(16)), ir.IntType(16))

    return like(types.float32, like), generate


@njit(inline="always")
def _exp(x: Any) -> Any:
    """The exponential to a unit in the last place or two; what is not a number stays none."""
    x = _MANY if x > _MANY else x
    x = -_MANY if x < -_MANY else x
    shifted = x * _LOG2_E + _ROUND
    whole = shifted - _ROUND
    r = x - whole * _LN2_HIGH - whole * _LN2_LOW
    p = ((((((_E7 * r + _E6) * r + _E5) * r + _E4) * r + _E3) * r + _E2) * r + _E1) * r + _E0
    return p * _float((_bits(shifted) - _BIAS) << np.int32(23))


@njit(inline="always")
def _sigmoid(x: Any) -> Any:
    return _inverse(_ONE + _exp(-x))


@njit(inline="always")
def _tanh(x: Any) -> Any:
    far = _ONE - _TWO * _inverse(_ONE + _exp(_TWO * x))
    y = x * x
    near = x + x * y * (_T3 + y * (_T5 + y * (_T7 + y * _T9)))
    return near if abs(x) < _SMALL else far


@compiled
def lstm_forward(
    t: int,
    active: Numbers,
    before: NDArray[np.float32],
    cells: NDArray[np.float32],
    squashed: NDArray[np.float32],
    states: Numbers,
) -> None:
    """A step of an LSTM behind its products.

    Args:
        t: the step.
        active: (T, B, 4 H) the sums of each gate, in place: what they let through, i, f, g, o.
        before: (T, B, H) the cells before each step.
        cells: (T + 1, B, H) written behind the step.
        squashed: (T, B, H) written: the tanh of the cells.
        states: (T + 1, B, H) written behind the step.
    """
    n = states.shape[2]
    for b in range(states.shape[1]):
        gates, c, after = active[t, b], before[t, b], cells[t + 1, b]
        tanh_c, h = squashed[t, b], states[t + 1, b]
        gi, gf, gg, go = gates[:n], gates[n : 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
        for k in range(n):
            i = _as(_sigmoid(_wide(gi[k])), gi[k])
            f = _as(_sigmoid(_wide(gf[k])), gf[k])
            g = _as(_tanh(_wide(gg[k])), gg[k])
            o = _as(_sigmoid(_wide(go[k])), go[k])
            gi[k], gf[k], gg[k], go[k] = i, f, g, o
            cell = c[k] * _wide(f) + _wide(i) * _wide(g)
            after[k] = cell
            tanh_c[k] = _tanh(cell)
            h[k] = _as(_wide(o) * tanh_c[k], o)


@compiled
def lstm_backward(
    t: int,
    active: Numbers,
    before: NDArray[np.float32],
    squashed: NDArray[np.float32],
    d_states: Numbers,
    d_later: Numbers,
    d_cell: NDArray[np.float32],
    d_gates: Numbers,
) -> None:
    """The gradients of a step of an LSTM before its products.

    Args:
        t: the step.
        active: (T, B, 4 H) what the gates let through.
        before: (T, B, H) the cells before each step.
        squashed: (T, B, H) the tanh of the cells after it.
        d_states: (T, B, H) the gradients of the states, by what each step gave out.
        d_later: (B, H) that of the state after this step, by the steps that came later.
        d_cell: (B, H) the gradient of the cell after, in place: of the cell before.
        d_gates: (T, B, 4 H) written: those of the sums of each gate.
    """
    n = before.shape[2]
    for b in range(before.shape[1]):
        gates, c, tanh_c = active[t, b], before[t, b], squashed[t, b]
        given, later, dc, out = d_states[t, b], d_later[b], d_cell[b], d_gates[t, b]
        gi, gf, gg, go = gates[:n], gates[n : 2 * n], gates[2 * n : 3 * n], gates[3 * n :]
        di, df, dg, do = out[:n], out[n : 2 * n], out[2 * n : 3 * n], out[3 * n :]
        for k in range(n):
            i, f, g, o = _wide(gi[k]), _wide(gf[k]), _wide(gg[k]), _wide(go[k])
            dh = _wide(later[k]) + _wide(given[k])
            d = dc[k] + dh * o * (_ONE - tanh_c[k] * tanh_c[k])
            di[k] = _as(d * g * i * (_ONE - i), gi[k])
            df[k] = _as(d * c[k] * f * (_ONE - f), gf[k])
            dg[k] = _as(d * i * (_ONE - g * g), gg[k])
            do[k] = _as(dh * tanh_c[k] * o * (_ONE - o), go[k])
            dc[k] = d * f
