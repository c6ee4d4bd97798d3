"""Sums, products and other functions of each number, with shapes that are broadcast as in torch."""

from __future__ import annotations

from typing import Any, Callable  # for Python 3.8, on old devices

from ampere.mnn.library import F, constant, plain
from ampere.mnn.operations.base import Call, Operation

Function = Callable[[Any, Any], Any]


def is_value(thing: Any) -> bool:
    """Whether it is a value of MNN, and no number."""
    return hasattr(thing, "data_format")


def together(left: Any, right: Any) -> tuple[Any, Any]:
    """Two sides of an operation, in the same order of dimensions unless they are alike."""
    if not (is_value(left) and is_value(right)):
        return _number(left), _number(right)
    alike = left.data_format == right.data_format and list(left.shape) == list(right.shape)
    return (left, right) if alike else (plain(left), plain(right))


def _number(side: Any) -> Any:
    """A whole number becomes a real one: MNN would cast the other side, and lose its gradient."""
    return side if is_value(side) else float(side)


def _binary(function: Function) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        left, right = together(call.x, call.given(1, "other"))
        alpha = call.given(2, "alpha", 1)
        return function(left, right if alpha == 1 else right * float(alpha))

    return run


def _reflected(function: Function) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        left, right = together(call.given(1, "other"), call.x)
        alpha = call.given(2, "alpha", 1)
        return function(left, right if alpha == 1 else right * float(alpha))

    return run


def added(left: Any, right: Any) -> Any:
    """The sum."""
    return left + right


def _subtracted(left: Any, right: Any) -> Any:
    return left - right


def _multiplied(left: Any, right: Any) -> Any:
    return left * right


def _divided(left: Any, right: Any) -> Any:
    return left / right


def _quotient(call: Call) -> Any:
    if call.options.get("rounding_mode"):
        raise call.refusal("it rounds, which has no gradient")
    return _binary(_divided)(call)


def _unary(function: Callable[[Any], Any]) -> Callable[[Call], Any]:
    return lambda call: function(call.x)


def inverse_root(x: Any) -> Any:
    """1/√x."""
    return F.rsqrt(x)


POWERS: dict[float, Callable[[Any], Any]] = {
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    4.0: lambda x: F.square(x * x),
    0.5: lambda x: F.sqrt(x),
    -0.5: inverse_root,
    -1.0: lambda x: 1.0 / x,
    1.0: lambda x: x,
}


def _power(call: Call) -> Any:
    exponent = call.given(1, "exponent")
    if is_value(exponent) or float(exponent) not in POWERS:
        listed = ", ".join(f"{each:g}" for each in POWERS)
        raise call.refusal(f"its exponent must be one of {listed}")
    return POWERS[float(exponent)](call.x)


def _masked_fill(call: Call) -> Any:
    mask, number = plain(call.given(1, "mask")), float(call.given(2, "value"))
    x = call.plain_x
    keep = 1.0 - _as_floats(mask)
    # What is filled in, and infinity times nothing, must not meet.
    return x * keep + (1.0 - keep) * max(min(number, 3.0e38), -3.0e38)


def _as_floats(mask: Any) -> Any:
    return F.cast(mask, F.dtype.float)


def _where(call: Call) -> Any:
    mask, left, right = (
        call.given(n, name) for n, name in enumerate(("condition", "input", "other"))
    )
    keep = _as_floats(plain(mask))
    left, right = (plain(side) if is_value(side) else float(side) for side in (left, right))
    return left * keep + right * (1.0 - keep)


def _comparison(name: str) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        left, right = together(call.x, call.given(1, "other"))
        sides = (side if is_value(side) else constant(side) for side in (left, right))
        return getattr(F, name)(*sides)

    return run


def _same(call: Call) -> Any:
    return call.x


def _converted(call: Call) -> Any:
    """Everything is float32 here, or ids: only torch tells more types apart."""
    return call.x


OPERATIONS = (
    Operation(("add", "add_", "__add__", "__iadd__"), _binary(added), "+"),
    Operation(("__radd__",), _reflected(added), "+"),
    Operation(("sub", "sub_", "subtract", "__sub__", "__isub__"), _binary(_subtracted), "−"),
    Operation(("__rsub__", "rsub"), _reflected(_subtracted), "−"),
    Operation(("mul", "mul_", "multiply", "__mul__", "__imul__"), _binary(_multiplied), "×"),
    Operation(("__rmul__",), _reflected(_multiplied), "×"),
    Operation(
        ("div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__"),
        _quotient,
        "/",
        "rounding",
    ),
    Operation(("__rtruediv__",), _reflected(_divided), "/"),
    Operation(("neg", "__neg__"), _unary(lambda x: -x), "−"),
    Operation(("exp",), _unary(lambda x: F.exp(x)), "exp"),
    Operation(("log",), _unary(lambda x: F.log(x)), "log"),
    Operation(("sqrt",), _unary(lambda x: F.sqrt(x)), "sqrt"),
    Operation(("rsqrt",), _unary(inverse_root), "rsqrt"),
    Operation(("reciprocal",), _unary(lambda x: 1.0 / x), "1 / x"),
    Operation(("square",), _unary(lambda x: x * x), "x·x"),
    Operation(("abs", "__abs__"), _unary(lambda x: F.abs(x)), "abs"),
    Operation(("pow", "__pow__"), _power, "products, sqrt", "exponents but a few"),
    Operation(("masked_fill", "masked_fill_"), _masked_fill, "products with the mask"),
    Operation(("where",), _where, "products with the mask"),
    Operation(("lt", "__lt__"), _comparison("less"), "less"),
    Operation(("le", "__le__"), _comparison("less_equal"), "less_equal"),
    Operation(("gt", "__gt__"), _comparison("greater"), "greater"),
    Operation(("ge", "__ge__"), _comparison("greater_equal"), "greater_equal"),
    Operation(("eq", "__eq__"), _comparison("equal"), "equal"),
    Operation(("Identity", "contiguous", "clone", "detach"), _same, "nothing"),
    Operation(("to", "float", "type_as"), _converted, "nothing: all is float32", "other types"),
)
