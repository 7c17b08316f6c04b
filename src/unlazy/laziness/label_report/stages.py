# SPDX-License-Identifier: Apache-2.0
"""One progress over several stages of work, each with its share of the time."""

from unlazy.linalg.iterative import Progress

_UNITS = 1000


class Stages:
    """Reports the work of all stages together, as `progress(done, expected)`.

    Example:
        >>> def show(done, expected):
        ...     print(done, expected)
        >>> stages = Stages(show, {"read": 1.0, "solve": 3.0})
        >>> stages.stage("read")(1, 2)
        125 1000
        >>> stages.stage("solve")(0, 10)
        250 1000
    """

    def __init__(self, progress: Progress | None, weights: dict[str, float]) -> None:
        self._progress, self._weights = progress, weights
        self._total = sum(weights.values())

    def stage(self, name: str) -> Progress:
        """The progress of one stage; the stages before it count as done."""
        before = 0.0
        for other, weight in self._weights.items():
            if other == name:
                break
            before += weight

        def report(done: int, expected: int) -> None:
            if self._progress is not None:
                share = before + self._weights[name] * min(1.0, done / max(expected, 1))
                self._progress(round(_UNITS * share / self._total), _UNITS)

        return report
