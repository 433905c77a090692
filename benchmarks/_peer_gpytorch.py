"""Sparse variational Gaussian process of GPyTorch: a sum of Gaussian kernels of the views, Adam on mini-batches."""

from __future__ import annotations

import math

import numpy as np
from _peer import Clock, Predict, Problem, main

BATCH, LEARNING_RATE = 1024, 0.02
LEAST_STEPS, LEAST_EPOCHS, LOOKS = 1000, 3, 20
PREDICTED_AT_ONCE = 4096


def svgp(problem: Problem, clock: Clock, inducing: int) -> Predict:
    import gpytorch
    import torch

    torch.manual_seed(problem.seed)
    device = torch.device(problem.device)
    X, y = (torch.tensor(values, dtype=torch.float32, device=device) for values in (problem.X, problem.y))
    n = len(y)

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, distribution))
            self.mean_module = gpytorch.means.ConstantMean()
            parts = []
            for view in problem.views:
                part = gpytorch.kernels.RBFKernel(ard_num_dims=len(view), active_dims=tuple(view))
                part.lengthscale = math.sqrt(len(view))
                parts.append(gpytorch.kernels.ScaleKernel(part))
            self.covar_module = gpytorch.kernels.AdditiveKernel(*parts)

        def forward(self, rows: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(rows), self.covar_module(rows))

    if problem.regression:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
    else:
        likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    model = Model(X[torch.randperm(n, device=device)[: min(inducing, n)]].clone()).to(device)
    likelihood = likelihood.to(device)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=LEARNING_RATE)

    def predict(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        model.eval(), likelihood.eval()
        found = []
        with torch.no_grad():
            for first in range(0, len(rows), PREDICTED_AT_ONCE):
                part = torch.tensor(
                    rows[first : first + PREDICTED_AT_ONCE], dtype=torch.float32, device=device
                )
                given = likelihood(model(part))
                found.append(torch.stack([given.mean, given.variance.sqrt()]).cpu().double().numpy())
        model.train(), likelihood.train()
        mean, std = np.hstack(found)
        return (mean, std) if problem.regression else (mean > 0.5, mean)

    batches = math.ceil(n / BATCH)
    steps = max(LEAST_STEPS, LEAST_EPOCHS * batches)
    looks = set(np.unique(np.geomspace(min(20, steps), steps, LOOKS).astype(int)))
    model.train(), likelihood.train()
    done = 0
    while done < steps:
        order = torch.randperm(n, device=device)
        for first in range(0, n, BATCH):
            rows = order[first : first + BATCH]
            optimizer.zero_grad()
            (-bound(model(X[rows]), y[rows])).backward()
            optimizer.step()
            done += 1
            if done in looks:
                if device.type == "cuda":
                    torch.cuda.synchronize()
                clock.look(predict)
            if done == steps:
                break
    return predict


METHODS = {"svgp": svgp}

if __name__ == "__main__":
    main(METHODS)
