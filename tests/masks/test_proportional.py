"""Steps that follow the size of a gradient: by hand, and with nothing to follow."""

from __future__ import annotations

import pytest
import torch

from mncover.masks.proportional import MEMORY, Proportional


def moved(*gradients: list[float], rate: float = 0.1) -> torch.Tensor:
    """Return where numbers that start at 0 are after a step with each of the gradients."""
    numbers = torch.nn.Parameter(torch.zeros(len(gradients[0])))
    optimizer = Proportional([{"params": [numbers]}])
    optimizer.param_groups[0]["lr"] = rate
    for gradient in gradients:
        numbers.grad = torch.tensor(gradient)
        optimizer.step()
    return numbers.detach()


def test_steps_are_gradients_in_units_of_the_usual_one() -> None:
    # The mean square of 3 and 4 is 12.5; the 0 is of a number that nothing used.
    assert moved([3.0, 0.0, -4.0]).tolist() == pytest.approx([-0.3 / 12.5**0.5, 0, 0.4 / 12.5**0.5])
    usual = (MEMORY * (1 - MEMORY) * 4 + (1 - MEMORY) * 16) / (1 - MEMORY**2)
    assert float(moved([2.0], [4.0])) == pytest.approx(-0.1 - 0.4 / usual**0.5)


def test_a_number_with_small_gradients_moves_less_whatever_their_scale() -> None:
    one, two = (moved(*[[scale, scale / 100]] * 20) for scale in (1.0, 1e-8))
    assert torch.allclose(one, two, rtol=1e-3)
    assert float(one[0] / one[1]) == pytest.approx(100, rel=1e-3)


def test_without_a_gradient_nothing_moves() -> None:
    assert moved([0.0, 0.0]).tolist() == [0, 0]
    numbers = torch.nn.Parameter(torch.ones(2))
    optimizer = Proportional([{"params": [numbers]}])
    optimizer.step()
    assert numbers.tolist() == [1, 1]
    assert optimizer.state_dict()["state"] == {}
