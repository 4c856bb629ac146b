"""Steps that follow the size of a gradient, so that what matters more moves further."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

MEMORY = 0.99  # of the mean square, per step


class Proportional(torch.optim.Optimizer):
    """Gradient descent in units of a parameter's usual gradient.

    Adam measures every number by its own gradients. A pair that is seen twice and hardly matters
    then moves as far as one that decides. Here a whole parameter has one measure: the root of
    the mean square of its gradients, without those that are 0 because nothing in the batch used
    the number.
    """

    def __init__(self, parts: Iterable[dict[str, Any]]) -> None:
        super().__init__(parts, {"lr": 0.0})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            for one in group["params"]:
                if one.grad is not None:
                    one.sub_(one.grad * (group["lr"] / self._usual(one, one.grad)))

    def _usual(self, one: Tensor, grad: Tensor) -> Tensor:
        """Return the usual size of a parameter's gradients, with the present ones."""
        state = self.state[one]
        if not state:
            state.update(step=torch.tensor(0.0), square=torch.zeros((), device=one.device))
        used = grad.count_nonzero().clamp(min=1)
        state["step"] += 1
        state["square"].lerp_(grad.square().sum() / used, 1 - MEMORY)
        weight = 1 - MEMORY ** float(state["step"])  # the mean started at 0
        usual: Tensor = (state["square"] / weight).sqrt().clamp(min=1e-20)
        return usual
