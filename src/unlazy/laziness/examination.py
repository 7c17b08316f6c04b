# SPDX-License-Identifier: Apache-2.0
"""The measurements of a report, one after the other, each with what it took."""

import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float

from unlazy.laziness.budgets import MOST_PASSES, Sample, some_of
from unlazy.laziness.measurements.feature_quality import FeatureQuality, feature_distance
from unlazy.laziness.measurements.flips import Flips, flips
from unlazy.laziness.measurements.kernel_drift import (
    KernelDrift,
    Kernels,
    first_rows,
    kernel_drift,
    total,
)
from unlazy.laziness.measurements.movement import movement
from unlazy.laziness.measurements.prediction import Prediction, prediction
from unlazy.laziness.measurements.recorded import Losses
from unlazy.laziness.measurements.targets import Targets, as_targets
from unlazy.laziness.measurements.taylor_shares import taylor_shares
from unlazy.laziness.measurements.twins import (
    HERE,
    KERNEL_END,
    KERNEL_START,
    TEST,
    Twins,
    kernel_scores,
    model_scores,
)
from unlazy.laziness.model_report import Cost, Report
from unlazy.laziness.subjects.subject import Subject, joined
from unlazy.laziness.verdicts import Remarks, verdict
from unlazy.linalg.iterative import Progress

Optimizer = Literal["sgd", "adam"]
"""What trained the model: descent along gradients, or along their signs at first, as Adam."""

T = TypeVar("T")
_MEASUREMENTS = 9
_NO_PREDICTION = (
    "The losses of `history` are predicted for plain descent: give `y` and `learning_rate`, with "
    "optimizer='sgd'."
)


class Training(NamedTuple):
    """What is known of how the model was trained."""

    optimizer: Optimizer
    learning_rate: int | float | None
    history: Losses | None
    snapshots: tuple[tuple[int | float, Any], ...]
    remark: str  # on the losses of `history`


class Tested(NamedTuple):
    """Samples that the model was not trained on."""

    x: Any
    targets: Targets


class Examination(NamedTuple):
    """A model at two points of its training, and the data to measure on."""

    subject: Subject
    start: Any
    end: Any
    x: Any
    targets: Targets | None
    sample: Sample
    order: int
    remarks: Remarks

    def report(
        self, test: tuple[Any, Any] | None, training: Training, progress: Progress | None
    ) -> Report:
        """Measure everything."""
        log = _Log(progress)
        passes, kernels = self.sample.passes_in_words(), self.sample.kernels_in_words()
        moved = log("movement", "all parameters", lambda: movement(*self[:3]))
        terms, end = log("taylor", passes, lambda: self._outputs(self.x[self.sample.passes]))
        switched = log("flips", passes, self._flips)
        features = log("features", passes, lambda: self._features(terms[0], end, log))
        tested = self._tested(test, end.shape[1])
        both = log("drift", kernels, lambda: self._kernels_with(tested))
        K0, K1 = (first_rows(kernel, len(self.sample.rows)) for kernel in both)
        drift = log("drift", kernels, lambda: self._drift((K0, K1), training))
        twins = log("twins", passes, lambda: self._twins(terms, end, both, tested))
        forecast = log("prediction", kernels, lambda: self._forecast(terms[0], K0, K1, training))
        if training.history is not None and (forecast is None or not len(forecast.steps)):
            log.missing["prediction"] = _NO_PREDICTION
        alone = log("taylor", passes, self._by_statistics)
        shares = taylor_shares(terms, end, alone)
        return Report(
            verdict=verdict(
                shares,
                moved,
                drift,
                switched,
                twins,
                training.optimizer,
                self.remarks,
            ),
            movement=moved,
            taylor=shares,
            drift=drift,
            flips=switched,
            twins=twins,
            prediction=forecast,
            features=features,
            kernel_start=total(K0),
            kernel_end=total(K1),
            where=self.subject.where,
            parameters=sum(value.size for value in self.subject.weights(self.start).values()),
            optimizer=training.optimizer,
            rows=self.sample.rows,
            costs=log.costs,
            missing=log.missing,
        )

    def _outputs(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """The Taylor terms at the start, and the outputs at the end."""
        terms = self.subject.taylor_terms(self.start, self.end, x, self.order)
        return np.asarray(terms, np.float64), self.subject.outputs(self.end, x).astype(np.float64)

    def _by_statistics(self) -> Float[np.ndarray, "n c"] | None:
        """What the statistics of the end change of the outputs of the start; None without any."""
        if not self.subject.statistics(self.start):
            return None
        x = self.x[self.sample.passes]
        params = self.subject.with_statistics(self.start, self.end)
        # Not less the Taylor term of order 0, whose rounding is another.
        return self.subject.outputs(params, x) - self.subject.outputs(self.start, x)

    def _flips(self) -> Flips | None:
        x = self.x[self.sample.passes]
        return flips(*(self.subject.active_units(p, x) for p in (self.start, self.end)))

    def _features(
        self, start: Float[np.ndarray, "n c"], end: Float[np.ndarray, "n c"], log: "_Log"
    ) -> FeatureQuality | None:
        m = len(self.sample.rows)  # the kernel of the features is as large as that of the gradients
        x = self.x[self.sample.passes[:m]]
        try:
            after = self.subject.last_features(self.end, x)
            before = self.subject.last_features(self.start, x)
        except ValueError as error:
            log.missing["features"] = str(error)
            return None
        distances = feature_distance(after, end[:m]), feature_distance(before, start[:m])
        return FeatureQuality(*distances, after.shape[1])

    def _tested(self, test: tuple[Any, Any] | None, outputs: int) -> Tested | None:
        if test is None or self.targets is None:
            return None
        x, y = test
        loss = "squared" if self.targets.squared else "cross-entropy"
        names = self.targets.names
        targets = as_targets(y, len(x), outputs, "test", loss=loss, names=names)
        rows = np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_PASSES])
        return Tested(x[rows], targets.at(rows))

    def _kernels_with(self, tested: Tested | None) -> tuple[Kernels, Kernels]:
        """The kernels at start and end of the sub-sample, followed by as many test rows."""
        x, m = self.x[self.sample.rows], len(self.sample.rows)
        if tested is not None:
            x = joined(x, tested.x[:m])
        return self._kernels(self.start, x), self._kernels(self.end, x)

    def _kernels(self, params: Any, x: Any = None, *, sign: bool = False) -> Kernels:
        x = self.x[self.sample.rows] if x is None else x
        return self.subject.layer_kernels(params, x, self.sample.directions, sign=sign)

    def _drift(self, pair: tuple[Kernels, Kernels], training: Training) -> KernelDrift:
        columns = None if self.targets is None else self.targets.at(self.sample.rows).columns
        on_the_way = [
            (step, self._kernels(self.subject.moved(self.start, params)))
            for step, params in training.snapshots
        ]
        signs = None
        if training.optimizer == "adam":
            signs = self._kernels(self.start, sign=True), self._kernels(self.end, sign=True)
        return kernel_drift(*pair, columns, on_the_way, signs)

    def _twins(
        self,
        terms: Float[np.ndarray, "orders n c"],
        end: Float[np.ndarray, "n c"],
        pair: tuple[Kernels, Kernels],
        tested: Tested | None,
    ) -> Twins | None:
        if self.targets is None:
            return None
        here, some = self.targets.at(self.sample.passes), self.targets.at(self.sample.rows)
        scores = model_scores(terms, end, here, HERE)
        if tested is not None:
            scores += model_scores(*self._outputs(tested.x), tested.targets, TEST)
        ridges = {}
        for name, kernels in zip((KERNEL_START, KERNEL_END), pair, strict=True):
            also = None if tested is None else tested.targets
            found, ridges[name] = kernel_scores(name, kernels, some, also)
            scores += found
        rows = some_of(len(self.sample.rows), self.sample.n)
        return Twins(tuple(scores), rows, ridges)

    def _forecast(
        self, start: Float[np.ndarray, "n c"], K0: Kernels, K1: Kernels, training: Training
    ) -> Prediction | None:
        if self.targets is None or training.learning_rate is None:
            return None
        targets, m = self.targets.at(self.sample.rows), len(self.sample.rows)
        history = training.history if training.optimizer == "sgd" else None
        kernels = total(K0), total(K1)
        return prediction(
            kernels, start[:m], targets, history, training.learning_rate, training.remark
        )


class _Log:
    """Notes what each measurement took and what it was measured on."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.done = progress, 0
        self.costs: dict[str, Cost] = {}
        self.missing: dict[str, str] = {}

    def __call__(self, name: str, sample: str, measure: Callable[[], T]) -> T:
        begin = time.perf_counter()
        found = measure()
        before = self.costs[name].seconds if name in self.costs else 0.0
        self.costs[name] = Cost(sample, before + time.perf_counter() - begin)
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, _MEASUREMENTS)
        return found
