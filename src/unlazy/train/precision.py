# SPDX-License-Identifier: Apache-2.0
"""Training in the precision of the parameters, whatever JAX's setting is."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from unlazy.taylor.movement import float64_if, is_wide

F = TypeVar("F", bound=Callable[..., Any])


def in_precision_of_params(trainer: F) -> F:
    """Decorate a function with an argument `params`: float64 parameters are trained in float64.

    Without it JAX rounds to float32 at each operation where x64 is off, and the state that a loop
    carries changes its dtype in the first step.
    """
    place = [*inspect.signature(trainer).parameters].index("params")

    @functools.wraps(trainer)
    def call(*args: Any, **kwargs: Any) -> Any:
        params = args[place] if len(args) > place else kwargs.get("params")
        with float64_if(is_wide(params)):
            return trainer(*args, **kwargs)

    return cast(F, call)
