"""How surprising a text's mean states are, layer by layer, given those of calibration texts.

After SADL (Kim, Feldt, Yoo 2019). A layer is one neuron, whose value is a surprise: cut into
sections from the least one of the calibration texts up to a multiple of their largest one, each
of them compared with all others.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mncover.criteria.base import View
from mncover.data.layout import Kind, Layout, Site
from mncover.engine.kernels.base import Block, Kernels
from mncover.engine.reading import Reading
from mncover.engine.sites import Ends
from mncover.errors import TextError
from mncover.types import Settings

if TYPE_CHECKING:
    from mncover.engine.ranges import Ranges

FEWEST = 3  # calibration texts: less have no spread
DIMENSIONS = 32  # of a layer that a density is estimated over: those that vary most
RIDGE = 1e-3  # of the mean variance, added to every variance: the inverse then exists


class Surprise:
    """One neuron for each layer; what a surprise is, and how it is fitted, is the subclass's."""

    def __init__(self, view: View, layout: Layout, settings: Settings) -> None:
        self.times = view.number
        self._wide = {site.layer: site for site in layout.sites if site.kind == "hidden"}
        sites = (replace(site, rows=1, columns=1) for site in self._wide.values())
        self.layout: Layout = Layout(tuple(sites))
        self._fits: dict[int, tuple[Tensor, ...]] = {}

    def ends(self, ranges: Ranges) -> Ends:
        """Fit every layer; return the least surprise and the upper bound of each."""
        references = ranges.references
        if references is None or len(references.digests) < FEWEST:
            raise TextError(f"surprise needs at least {FEWEST} different calibration texts.")
        ends = []
        for site, means in zip(self.layout.sites, references.means, strict=True):
            states = torch.from_numpy(means).double()
            fit = self._fits[site.layer] = self.fit(states)
            least = float(self.surprise(states, *fit).min())
            most = float(self.among(states, *fit).max())
            ends.append((least, max(least, least + self.times * (most - least))))
        low, high = np.array(ends, dtype=np.float32).T
        return low.copy(), high.copy()

    def reads(self, kind: Kind) -> bool:
        return kind == "hidden"

    def block(self, kernels: Kernels, reading: Reading, kept: bool) -> Block:
        means = reading.means(self._wide[reading.layer])[:, 0].double()
        fit = tuple(one.to(means.device) for one in self._fits[reading.layer])
        self._fits[reading.layer] = fit
        values = self.surprise(means, *fit).float()[:, None, None]
        site: Site = kernels.site("hidden", reading.layer)
        return Block(site, 1, kernels.values(values), reading.batch.places)

    def fit(self, states: Tensor) -> tuple[Tensor, ...]:
        """Return what is learned from the mean states [texts, width] of a layer."""
        raise NotImplementedError

    def surprise(self, states: Tensor, *fit: Tensor) -> Tensor:
        """Return the surprise [texts] of mean states."""
        raise NotImplementedError

    def among(self, states: Tensor, *fit: Tensor) -> Tensor:
        """Return that of the calibration texts themselves, each compared with the others."""
        raise NotImplementedError


class Mahalanobis(Surprise):
    """The Mahalanobis distance from the mean of the calibration texts."""

    def fit(self, states: Tensor) -> tuple[Tensor, ...]:
        covariance = torch.cov(states.T).reshape(states.shape[1], -1)
        ridge = RIDGE * covariance.diagonal().mean().clamp(min=1e-12)
        covariance.diagonal().add_(ridge)
        return states.mean(0), torch.linalg.inv(covariance)

    def surprise(self, states: Tensor, *fit: Tensor) -> Tensor:
        mean, inverse = fit
        away = states - mean
        return ((away @ inverse) * away).sum(1).clamp(min=0).sqrt()

    def among(self, states: Tensor, *fit: Tensor) -> Tensor:
        return self.surprise(states, *fit)


class Distance(Surprise):
    """The distance to the nearest calibration text, as a multiple of that one's own to its nearest.

    SADL's has classes; a text need not have one, so the nearest text of any stands for both.
    """

    def fit(self, states: Tensor) -> tuple[Tensor, ...]:
        apart = _distances(states, states).fill_diagonal_(math.inf).amin(1)
        return states, apart.clamp(min=1e-12)

    def surprise(self, states: Tensor, *fit: Tensor) -> Tensor:
        references, apart = fit
        nearest, which = _distances(states, references).min(1)
        return nearest / apart[which]

    def among(self, states: Tensor, *fit: Tensor) -> Tensor:
        references, apart = fit
        nearest, which = _distances(states, references).fill_diagonal_(math.inf).min(1)
        return nearest / apart[which]


def _distances(states: Tensor, others: Tensor) -> Tensor:
    return torch.cdist(states, others, compute_mode="donot_use_mm_for_euclid_dist")


class Likelihood(Surprise):
    """The negative logarithm of a density: Gaussian kernels, with Scott's bandwidth.

    It is estimated over the dimensions of a layer that vary most.
    """

    def fit(self, states: Tensor) -> tuple[Tensor, ...]:
        n, width = states.shape
        d = min(DIMENSIONS, width, max(1, n // 2))
        chosen = states.var(0).argsort(descending=True, stable=True)[:d]
        some = states[:, chosen]
        covariance = torch.cov(some.T).reshape(d, d) * n ** (-2 / (d + 4))
        covariance.diagonal().add_(RIDGE * covariance.diagonal().mean().clamp(min=1e-12))
        # In units of the bandwidth the kernels are round.
        root = torch.linalg.cholesky(covariance)
        log_volume = root.diagonal().log().sum() + d / 2 * math.log(2 * math.pi)
        round_ones = torch.linalg.solve_triangular(root, some.T, upper=False).T
        return chosen, root, round_ones, log_volume

    def surprise(self, states: Tensor, *fit: Tensor) -> Tensor:
        return self._surprise(states, fit, alone=False)

    def among(self, states: Tensor, *fit: Tensor) -> Tensor:
        return self._surprise(states, fit, alone=True)

    def _surprise(self, states: Tensor, fit: tuple[Tensor, ...], alone: bool) -> Tensor:
        chosen, root, references, log_volume = fit
        mine = torch.linalg.solve_triangular(root, states[:, chosen].T, upper=False).T
        kernels = -(_distances(mine, references) ** 2) / 2
        if alone:  # without the text's own kernel
            kernels.fill_diagonal_(-math.inf)
        total = len(references) - alone
        return log_volume + math.log(total) - kernels.logsumexp(1)
