# SPDX-License-Identifier: Apache-2.0
"""The grid as PyTorch users train it: one lane after the other, on the same start and batches.

Kept lean: plain tensors, no modules, the data permuted once an epoch and sliced, the loss read only
at the end, the fused form of SGD (on two cores a tenth faster than the default one).
"""

from collections.abc import Mapping

import numpy as np
import torch  # pyright: ignore[reportMissingImports]  # in an environment of its own

from benchmarks.peers.grid_problem import BATCH, DROP, LANES, MOMENTUM

NAMES = ("W", "b1", "A", "V", "b2")


def resnet(params, x):
    W, b1, A, V, b2 = params
    out1 = torch.relu(torch.addmm(b1, x, W.t())) @ A.t()
    return out1 + torch.relu(torch.addmm(b2, out1, V.t())) @ A.t()


def train_lane(inputs: Mapping[str, np.ndarray], lr: float, wd: float, device: str) -> float:
    params = [torch.tensor(inputs[name], device=device, requires_grad=True) for name in NAMES]
    x, y = (torch.tensor(inputs[name], device=device) for name in ("x", "y"))
    orders = torch.tensor(inputs["orders"].astype(np.int64), device=device)
    optimizer = torch.optim.SGD(params, lr=lr, momentum=MOMENTUM, weight_decay=wd, fused=True)
    for epoch, order in enumerate(orders):
        if epoch == DROP:
            optimizer.param_groups[0]["lr"] = lr / 10
        batches = zip(x[order].split(BATCH), y[order].split(BATCH), strict=True)
        for x_batch, y_batch in batches:
            optimizer.zero_grad()
            loss = ((resnet(params, x_batch) - y_batch) ** 2).sum(1).mean()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return ((resnet(params, x) - y) ** 2).sum(1).mean().item()


def train_grid(inputs: Mapping[str, np.ndarray], device: str = "cpu", lanes=LANES) -> np.ndarray:
    return np.asarray([train_lane(inputs, lr, wd, device) for lr, wd in lanes])
