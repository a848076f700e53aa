"""Which operations on scores are understood? A stand-in for the scores of an attention module, which keeps account.

`hf_analysis.attention.following` puts it in place of a product of queries and keys. A further operation is one more
entry of STEPS.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

from hf_analysis.attention.account import OLD_MASK, Account


class Scores:
    """Stands in for the scores of an attention module, or for their softmax, in whatever shape and type it wants.

    `account` is None once something was done to them that nobody can account for.
    """

    def __init__(self, account: Account | None, like: Tensor, compute: Callable[[], Tensor]) -> None:
        self.account, self.like, self.compute = account, like, compute  # `like` is on the device "meta": no numbers
        self.found: Tensor | None = None

    def computed(self) -> Tensor:
        """What it stands in for, by the module's own operations."""
        if self.found is None:
            self.found = self.compute()
        return self.found

    def as_four(self, other: Tensor) -> Tensor:
        """A tensor that broadcasts with the scores, as [batch head query key]."""
        if self.like.ndim == 4 or other.ndim < 3:
            return other[(None,) * (4 - other.ndim)]
        return other[None] if other.shape[0] == 1 else other.unflatten(0, self.known.query.shape[:2])

    @property
    def known(self) -> Account:
        """The account, where there is one: no step is taken without."""
        assert self.account is not None
        return self.account

    @property
    def shape(self) -> torch.Size:
        return self.like.shape

    @property
    def dtype(self) -> torch.dtype:
        return self.like.dtype

    @property
    def device(self) -> torch.device:
        return self.computed().device if self.account is None else self.account.query.device

    def size(self, *dim: int) -> Any:
        return self.like.size(*dim)

    def __getattr__(self, name: str) -> Any:
        method = getattr(Tensor, name)
        if not callable(method):
            return getattr(self.computed(), name)
        return lambda *others, **options: handle_torch_function(method, (self,), self, *others, **options)

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        options, name = kwargs or {}, func.__name__
        in_place = name in _IN_PLACE or (name.endswith("_") and not name.startswith("_"))
        target = args[0] if in_place and isinstance(args[0], Scores) else None
        if target is not None:  # what it was goes on without the change
            before = Scores(target.account, target.like, target.compute)
            before.found = target.found
            args = (before, *args[1:])
        found = None if in_place and target is None else _followed(func, args, options)
        if target is None:
            return _plainly(func, args, options) if found is None else found
        if found is None:
            target.account, target.found = None, _plainly(func, args, options)
        else:
            target.__dict__.update(found.__dict__)
        return target


_IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__idiv__", "__itruediv__")
_OPERATORS = (
    "__iadd__", "__isub__", "__imul__", "__itruediv__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__",
    "__rmul__", "__truediv__", "__matmul__", "__neg__", "__getitem__", "__eq__", "__ne__", "__lt__", "__gt__",
)  # fmt: skip


def _operator(name: str) -> Callable[..., Any]:
    func = getattr(Tensor, name)
    return lambda self, *others: handle_torch_function(func, (self,), self, *others)


for _name in _OPERATORS:
    setattr(Scores, _name, _operator(_name))


def _plainly(func: Callable, arguments: tuple, options: dict[str, Any]) -> Any:
    """The operation on numbers."""
    return func(*_numbers(arguments), **_numbers(options))


def _numbers(one: Any) -> Any:
    if isinstance(one, dict):
        return {name: _numbers(part) for name, part in one.items()}
    if isinstance(one, (tuple, list)):
        return [_numbers(part) for part in one]
    return one.computed() if isinstance(one, Scores) else one


def _followed(func: Callable, arguments: tuple, options: dict[str, Any]) -> Any:
    """The operation on an account; None if there is none."""
    scores = next((one for one in arguments if isinstance(one, Scores)), None)
    step = STEPS.get(func.__name__.strip("_"))
    if scores is None or scores.account is None or step is None:
        return None
    result = step(scores, arguments, options)
    if not isinstance(result, Account):
        return result
    blank = [one.like if isinstance(one, Scores) else _blank(one) for one in arguments]
    like = func(*blank, **{name: _blank(one) for name, one in options.items()})
    whole = (*result.query.shape[:3], result.key.shape[2])
    if like.shape not in (whole, (whole[0] * whole[1], *whole[2:])):
        return None
    return Scores(result, like, partial(_plainly, func, arguments, options))


def _blank(one: Any) -> Any:
    return one.to("meta") if isinstance(one, Tensor) else one


def _number(one: Any) -> float | None:
    if isinstance(one, Tensor) and one.numel() == 1:
        return float(one)
    return float(one) if isinstance(one, (int, float)) else None


Step = Callable[[Scores, tuple, dict[str, Any]], Account | Tensor | None]


def _unchanged(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    return scores.known if arguments[0] is scores else None


def _dropped(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    training = options.get("training", arguments[2] if len(arguments) > 2 else True)
    return None if training else scores.known


def _typed(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | Tensor | None:
    return scores.known if arguments[0] is scores else arguments[0].to(scores.dtype)


def _expanded(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Tensor | None:
    return None if arguments[0] is scores else arguments[0].expand(scores.shape)


def _added(scores: Scores, arguments: tuple, options: dict[str, Any], sign: int = 1) -> Account | None:
    first, second = arguments
    other = second if first is scores else first
    if scores.known.softmaxed or options or (sign < 0 and first is not scores):
        return None
    if _number(other) is not None:
        return scores.known  # softmax does not see what all scores share
    if not isinstance(other, Tensor) or not other.is_floating_point():
        return None
    return scores.known.plus(scores.as_four(other * sign))


def _multiplied(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    first, second = arguments
    other = second if first is scores else first
    if scores.known.softmaxed or options:
        return None
    factor = _number(other)
    if factor is not None:
        return scores.known.times(factor)
    if not isinstance(other, Tensor) or not bool(((other == 0) | (other == 1)).all()):
        return None
    return replace(scores.known, zeroed=scores.as_four(other == 0))


def _divided(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    factor = _number(arguments[1])
    if scores.known.softmaxed or options or arguments[0] is not scores or not factor:
        return None
    return scores.known.times(1 / factor)


def _masked(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    if options or arguments[0] is not scores:
        return None
    hidden, value, account = scores.as_four(arguments[1]), _number(arguments[2]), scores.known
    if account.softmaxed:  # zero where there is nothing anyway
        seen = True if account.visible is None else account.visible
        return account if value == 0 and not bool((hidden & seen).any()) else None
    return account.hiding(hidden) if value is not None and value <= OLD_MASK else None


def _chosen(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    kept, first, second = arguments
    value = _number(second if first is scores else first)
    if scores.known.softmaxed or value is None or value > OLD_MASK:
        return None
    return scores.known.hiding(scores.as_four(~kept if first is scores else kept))


def _at_least(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    bound = _number(arguments[1]) if len(arguments) > 1 else None
    return scores.known if bound is not None and bound <= OLD_MASK and not scores.known.softmaxed else None


def _softmaxed(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Account | None:
    dim = options.get("dim", arguments[1] if len(arguments) > 1 else None)
    if dim not in (-1, scores.like.ndim - 1) or scores.known.softmaxed or scores.known.zeroed is not None:
        return None
    return replace(scores.known, softmaxed=True)


def _with_values(scores: Scores, arguments: tuple, options: dict[str, Any]) -> Tensor | None:
    if len(arguments) != 2:
        return None
    weights, value = arguments
    if weights is not scores or not scores.known.softmaxed or value.ndim != scores.like.ndim:
        return None
    n_batch, n_heads = scores.known.query.shape[:2]
    if value.ndim == 4:
        return scores.known.with_values(value)
    return scores.known.with_values(value.unflatten(0, (n_batch, n_heads))).flatten(0, 1)


STEPS: dict[str, Step] = {
    **dict.fromkeys(("view", "reshape", "to", "float", "double", "half", "contiguous", "type"), _unchanged),
    **dict.fromkeys(("add", "radd", "iadd"), _added),
    **dict.fromkeys(("sub", "isub"), partial(_added, sign=-1)),
    **dict.fromkeys(("mul", "rmul", "imul"), _multiplied),
    **dict.fromkeys(("div", "truediv", "idiv", "itruediv"), _divided),
    **dict.fromkeys(("max", "maximum"), _at_least),
    **dict.fromkeys(("matmul", "bmm"), _with_values),
    "type_as": _typed,
    "expand_as": _expanded,
    "dropout": _dropped,
    "masked_fill": _masked,
    "where": _chosen,
    "softmax": _softmaxed,
}
"""What is understood of scores and of their softmax, by the names of torch's functions."""
