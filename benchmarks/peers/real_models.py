# SPDX-License-Identifier: Apache-2.0
"""Kernels of real networks against torch.func, on one device and in one process.

`python -m benchmarks.peers.real_models [--device cuda] [--networks cnn] [--sizes 50 200 1000]`, in
an environment that has both libraries. PyTorch's recipe: per-sample Jacobians by `vmap(jacrev)`,
then one product per parameter. Both in float32 without TF32, and both compared with PyTorch's
recipe in float64 at some rows; a size that does not fit is left out.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", ".5")  # PyTorch needs the other half

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from torch.func import grad, jacrev, vmap  # pyright: ignore[reportMissingImports]

from benchmarks.peers.jax_operations import GROUPS, JaxOps
from benchmarks.peers.real_networks import Case, cases
from unlazy.kernels import empirical_ntk, empirical_ntk_traced

EXACT_ROWS = 20  # of the kernel that are computed in float64
TOLERANCE = 1e-4
MOVED = 1e-6  # as far as float32 rounds the values of a deep network
LIMITS = {("cnn", "traced", 200): 3.0}  # times faster; elsewhere never slower
ENTRIES_PER_SECOND = 1e6  # of ResNet-18 with one output, on an accelerator


class TorchOps:
    tanh, relu, gelu = staticmethod(torch.tanh), staticmethod(torch.relu), staticmethod(F.gelu)
    dense = staticmethod(F.linear)

    @staticmethod
    def transpose(x, axes):
        return x.permute(axes)

    @staticmethod
    def softmax(x):
        return torch.softmax(x, -1)

    @staticmethod
    def conv(x, W, stride):
        return F.conv2d(x, W, stride=stride, padding=W.shape[2] // 2)

    @staticmethod
    def halve(x):
        return F.avg_pool2d(x, 2)

    @staticmethod
    def group_norm(x, scale, shift):
        return F.group_norm(x, GROUPS, scale, shift)

    @staticmethod
    def layer_norm(x, scale, shift):
        return F.layer_norm(x, scale.shape, scale, shift)


def ours(case: Case, kind: str) -> Callable[[], Any]:
    # Compiled, as a network usually is: JAX then keeps its trace from one call to the next.
    f = jax.jit(lambda params, x: case.network(JaxOps, params, x))
    params, x = jax.tree.map(jnp.asarray, case.params), jnp.asarray(case.x)
    kernel = empirical_ntk if kind == "full" else empirical_ntk_traced
    return lambda: jax.block_until_ready(kernel(f, params, x, sum_of_outputs=kind == "sum"))


def theirs(case: Case, kind: str, device: str, dtype=torch.float32) -> Callable[[], Any]:
    params = {name: torch.from_numpy(v).to(device, dtype) for name, v in case.params.items()}
    x = torch.from_numpy(case.x).to(device, dtype)

    def single(params, x):
        return case.network(TorchOps, params, x[None])[0]

    def call():
        if kind == "sum":
            rows = vmap(grad(lambda params, x: single(params, x).sum()), (None, 0))(params, x)
            K = sum(g.flatten(1) @ g.flatten(1).T for g in rows.values())
        else:
            jacobian = vmap(jacrev(single), (None, 0))(params, x)
            form = "nap,mbp->nmab" if kind == "full" else "nap,map->nm"
            flat = (g.flatten(2) for g in jacobian.values())
            K = sum(torch.einsum(form, g, g) for g in flat)
        if device == "cuda":
            torch.cuda.synchronize()
        return K

    return call


def timed(call: Callable[[], Any], calls: int) -> tuple[float, float, np.ndarray]:
    """Seconds of the first call, the median of the others, and the answer."""
    start = time.perf_counter()
    value = call()
    first, times = time.perf_counter() - start, []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    value = value.cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
    return first, statistics.median(times) if times else first, value


def jacobian_bytes(case: Case, kind: str, outputs: int) -> int:
    size = sum(value.size for value in case.params.values())
    return 4 * size * len(case.x) * (1 if kind == "sum" else outputs)


def compare(name: str, case: Case, kind: str, options: argparse.Namespace) -> bool:
    n, outputs = len(case.x), 10
    label = f"{name:9} {kind:7} n = {n:5}"
    kernel_bytes = 4 * n * n * (outputs**2 if kind == "full" else 1)
    if max(kernel_bytes, jacobian_bytes(case, kind, outputs)) > options.memory:
        first, again, _ = timed(ours(case, kind), options.calls)
        print(f"{label} ours {again:9.4f} s (first {first:6.2f}); torch.func: no room", flush=True)
        return True
    first, again, K = timed(ours(case, kind), options.calls)
    first_torch, seconds, other = timed(theirs(case, kind, options.device), options.calls)
    few = case._replace(x=case.x[:EXACT_ROWS])
    exact = theirs(few, kind, options.device, torch.float64)().cpu().numpy()
    if options.device == "cuda":
        torch.cuda.empty_cache()
    gap, gap_torch = (_gap(answer, exact) for answer in (K, other))
    ratio, limit = seconds / again, LIMITS.get((name, kind, n), 1.0)
    allowed = TOLERANCE if gap <= TOLERANCE else max(TOLERANCE, _unsure(few, kind, options, exact))
    if allowed > TOLERANCE:
        print(f"{label} inputs moved by {MOVED:g} change the exact answer by {allowed:.0e}")
    good = ratio >= limit and gap <= allowed
    print(
        f"{label} ours {again:9.4f} s (first {first:6.2f}, error {gap:.0e}), torch.func "
        f"{seconds:9.4f} s (first {first_torch:5.2f}, error {gap_torch:.0e}): {ratio:7.2f} times "
        f"faster, limit {limit:g}{'' if good else '  MISSED'}",
        flush=True,
    )
    return good


def _unsure(case: Case, kind: str, options: argparse.Namespace, exact: np.ndarray) -> float:
    """How far the exact answer moves with its inputs.

    A ReLU whose input is zero up to the rounding of float32 is on or off by chance, and its
    gradient with it: then no answer in float32 is nearer than that.
    """
    rng, found = np.random.default_rng(0), 0.0
    for _ in range(4):
        x = case.x * (1 + MOVED * rng.standard_normal(case.x.shape))
        moved = theirs(case._replace(x=x), kind, options.device, torch.float64)()
        found = max(found, _gap(moved.cpu().numpy(), exact))
    return found


def _gap(answer: np.ndarray, exact: np.ndarray) -> float:
    n = len(exact)
    return float(np.max(np.abs(answer[:n, :n] - exact)) / np.max(np.abs(exact)))


def entries_per_second(n: int) -> bool:
    """The speed of ResNet-18 with one output, as in arXiv:2206.12543's code on four A100."""
    case = cases(n, outputs=1)["resnet18"]
    first, seconds, _ = timed(ours(case, "traced"), 1)
    speed = n * n / seconds
    print(
        f"resnet18, one output, n = {n}: {seconds:.2f} s (first {first:.2f}), {speed / 1e6:.2f} "
        f"million entries per second, limit {ENTRIES_PER_SECOND / 1e6:g}",
        flush=True,
    )
    return speed >= ENTRIES_PER_SECOND


def main() -> bool:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--networks", nargs="*", default=["mlp", "cnn", "resnet18", "vit"])
    parser.add_argument("--kinds", nargs="*", default=["full", "traced", "sum"])
    parser.add_argument("--sizes", nargs="*", type=int, default=[50, 200, 1000])
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--memory", type=float, default=30e9, help="bytes for one Jacobian")
    parser.add_argument("--entries", type=int, default=0, help="samples of the one-output ResNet")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"jax {jax.__version__}, torch {torch.__version__}, {jax.devices()[0].device_kind}")
    good = True
    for n in options.sizes:
        every = cases(n)
        for name in options.networks:
            for kind in options.kinds:
                good &= compare(name, every[name], kind, options)
    if options.entries:
        good &= entries_per_second(options.entries)
    return good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
