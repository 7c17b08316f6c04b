# SPDX-License-Identifier: Apache-2.0
"""Call every public name with one wrong argument at a time, and judge what the user is told.

Valid calls are recorded while the examples of the docstrings run. Each argument in turn is then
replaced by values that a user may pass by mistake. What happens is one of

- "returned": the call accepted the value;
- "clear": a ValueError or TypeError, or one of our own kinds, that names the argument in
  backquotes;
- "other name": an error of our own that does not name the argument;
- "unclear": everything else, such as an AttributeError, or a TypeError from inside JAX;
- "hang": no answer within the time limit.

Run this file for a report: `python tests/contracts/fuzz.py --rooms labels nets --show 20`.
"""

import argparse
import ast
import collections
import contextlib
import doctest
import importlib
import inspect
import io
import os
import pkgutil
import re
import signal
import sys
import tempfile
import traceback
import typing
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.core import Tracer

import unlazy
from unlazy.core.errors import UnlazyError

SOURCE = Path(unlazy.__file__).parent
EXAMPLES = Path(__file__).parent / "fuzz_examples.txt"  # for names whose docstring has none
NO_ROOMS = {"__main__", "cli", "core", "options", "papers", "surroundings"}


class Call(NamedTuple):
    """A valid call of a public name, and the arguments by their names."""

    name: str  # room.function, room.Class or room.Class.method
    function: Callable[..., Any]
    arguments: inspect.BoundArguments

    @property
    def room(self) -> str:
        return room_of(self.name)


class Outcome(NamedTuple):
    """What became of a call with one wrong argument."""

    name: str
    argument: str
    mutation: str
    kind: str
    message: str
    place: str  # file and line of unlazy where the error left it

    @property
    def room(self) -> str:
        return room_of(self.name)


class TooLong(BaseException):
    """The time limit of one call has passed."""


def rooms() -> list[str]:
    """The rooms whose names are public."""
    found = {info.name for info in pkgutil.iter_modules([str(SOURCE)])} - NO_ROOMS
    papers = {f"papers.{i.name}" for i in pkgutil.iter_modules([str(SOURCE / "papers")]) if i.ispkg}
    return sorted(found | papers)


def room_of(name: str) -> str:
    """The room of a dotted name below `unlazy`: its first part, or a paper's first two."""
    parts = name.split(".")
    return ".".join(parts[:2]) if parts[0] == "papers" else parts[0]


def public_objects() -> dict[int, tuple[str, Any]]:
    """Every public function and class, by its identity."""
    objects = {}
    for room in rooms():
        module = importlib.import_module(f"unlazy.{room}")
        names = getattr(module, "__all__", None)
        if names is None:
            names = [
                name
                for name, value in vars(module).items()
                if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
            ]
        for name in names:
            value = getattr(module, name)
            if callable(value):
                objects[id(value)] = (f"{room}.{name}", value)
    return objects


class _Recorded(ast.NodeTransformer):
    """`f(x)` becomes `__record__(f, x)`, everywhere."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        record = ast.Name("__record__", ast.Load())
        return ast.Call(record, [node.func, *node.args], node.keywords)


class Recorder:
    """Runs examples and keeps the calls of public names in them."""

    def __init__(self, most: int = 2):
        self.public = public_objects()
        self.most = most
        self.calls: dict[str, list[Call]] = collections.defaultdict(list)

    def name_of(self, function: Any) -> str | None:
        if id(function) in self.public:
            return self.public[id(function)][0]
        owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if owner is None and not inspect.isroutine(function):
            owner, name = function, "__call__"
        kind = owner if isinstance(owner, type) else type(owner)
        if id(kind) in self.public and (name == "__call__" or not name.startswith("_")):
            return f"{self.public[id(kind)][0]}.{name}"
        return None

    def __call__(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        name = self.name_of(function)
        if name and len(self.calls[name]) < self.most and not _holds_tracer((args, kwargs)):
            with contextlib.suppress(TypeError, ValueError):
                arguments = inspect.signature(function).bind(*args, **kwargs)
                if arguments.arguments:
                    self.calls[name].append(Call(name, function, arguments))
        return function(*args, **kwargs)

    def run(self, source: str, namespace: dict[str, Any]) -> None:
        namespace["__record__"] = self
        tree = ast.fix_missing_locations(_Recorded().visit(ast.parse(source)))
        exec(compile(tree, "<example>", "exec"), namespace)


def _holds_tracer(tree: Any) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def docstrings(wanted: list[str]) -> Iterator[tuple[str, doctest.DocTest]]:
    """The docstrings of these rooms that hold examples, with the room of each."""
    finder = doctest.DocTestFinder()
    for info in pkgutil.walk_packages([str(SOURCE)], "unlazy."):
        room = room_of(info.name.removeprefix("unlazy."))
        if room not in wanted:
            continue
        module = importlib.import_module(info.name)
        for test in finder.find(module, info.name):
            if test.examples:
                yield room, test


def further_examples(wanted: list[str]) -> Iterator[tuple[str, str]]:
    """The examples beside this file: paragraphs, each headed by `# room`."""
    if not EXAMPLES.exists():
        return
    for part in re.split(r"^(?=# [\w.]+$)", EXAMPLES.read_text(), flags=re.MULTILINE):
        head, _, body = part.partition("\n")
        if head.removeprefix("# ") in wanted and body.strip():
            yield head.removeprefix("# "), body


def record(wanted: list[str], pick: Callable[[list], list] = list) -> list[Call]:
    """The calls of public names in the examples of these rooms, one or two of each name."""
    recorder = Recorder()
    sources = [(list(test.examples), test.globs) for _, test in docstrings(wanted)]
    sources += [([body], {}) for _, body in further_examples(wanted)]
    with contextlib.redirect_stdout(io.StringIO()), _as_users_run():
        for examples, namespace in pick(sources):
            namespace = dict(namespace)
            for example in examples:
                source = example if isinstance(example, str) else example.source
                if getattr(example, "exc_msg", None) is None:
                    recorder.run(source, namespace)
    return [call for calls in recorder.calls.values() for call in calls]


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def _of_kind(kind: str, like: np.ndarray) -> np.ndarray:
    return np.full(like.shape, "2026-01-01", kind) if kind[0] == "d" else like.astype(kind)


def _array_mutations(value: np.ndarray) -> Iterator[tuple[str, Any]]:
    yield "extra axis", value[None]
    yield "trailing axis", value[..., None]
    yield "empty", value[:0] if value.ndim else np.zeros((0,), value.dtype)
    if value.ndim:
        yield "missing axis", value[0]
        yield "one more row", np.concatenate([value, value[:1]])
        yield "generator", (row for row in value)
        if len(value) > 1:
            yield "ragged list", [*value[:-1].tolist(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]]
    if value.dtype.kind in "biuf":
        for kind in ("complex64", "object", "str", "datetime64[D]", "bool"):
            yield f"of {kind}", _of_kind(kind, value)
    yield "list", value.tolist()
    if value.size and np.issubdtype(value.dtype, np.floating):
        for name, bad in (("nan inside", np.nan), ("inf inside", np.inf)):
            changed = np.array(value)
            changed.reshape(-1)[0] = bad
            yield name, changed
        yield "zeros", np.zeros_like(value)


def mutations(value: Any) -> Iterator[tuple[str, Any]]:
    """Wrong values for an argument that holds this right one, each with a name."""
    yield "None", None
    yield "text", "text"
    yield "dict", {}
    yield "object", object()
    yield "class", int
    if not callable(value) or hasattr(value, "shape"):
        yield "function", lambda *_: 0.0
    else:
        yield "constant function", lambda *_, **__: 0.0
        yield "function of nothing", lambda: 0.0
        yield "function to None", lambda *_, **__: None
        yield "function to text", lambda *_, **__: "text"
    yield "2.5", 2.5
    yield "-1", -1
    yield "empty list", []
    yield "nested list", [[1.0, 2.0, 3.0]]
    yield "list of text", ["a", "b"]
    if isinstance(value, int | float | np.number):
        for number in (True, float("nan"), float("inf"), 0, 10**30, -0.5, 1j):
            yield repr(number), number
        yield "array", np.ones(2)
        yield "one-element array", np.ones((1,))
    elif isinstance(value, str):
        yield "no name", ""
    elif _is_key(value):
        yield "two keys", jr.split(typing.cast(jax.Array, value))
    elif isinstance(value, np.ndarray | jax.Array):
        yield from _array_mutations(np.asarray(value))
    elif isinstance(value, list | tuple):
        yield "one fewer", value[:-1]
        yield "one more", [*value, *value[:1]]
        for number in (None, "text", float("nan"), -1):
            yield f"{number} inside", [number, *value[1:]]
    elif isinstance(value, dict):
        yield "one fewer", dict(list(value.items())[:-1])
        yield "one more", {**value, "another": 1.0}


class Trial(NamedTuple):
    """A call with one argument replaced."""

    call: Call
    argument: str
    mutation: str
    value: Any


def trials(calls: list[Call]) -> list[Trial]:
    """Every call with every argument replaced by every wrong value."""
    return [
        Trial(call, argument, mutation, wrong)
        for call in calls
        for argument, value in _single_arguments(call)
        for mutation, wrong in mutations(value)
    ]


def _single_arguments(call: Call) -> Iterator[tuple[str, Any]]:
    for name, value in call.arguments.arguments.items():
        kind = call.arguments.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            yield name, value[0]
        else:
            yield name, value


def _replaced(trial: Trial) -> tuple[tuple, dict[str, Any]]:
    bound = trial.call.arguments
    arguments = dict(bound.arguments)
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD and trial.argument in value:
            arguments[name] = {**value, trial.argument: trial.value}
        elif name == trial.argument:
            is_many = kind is inspect.Parameter.VAR_POSITIONAL
            arguments[name] = (trial.value, *value[1:]) if is_many else trial.value
    changed = inspect.BoundArguments(bound.signature, collections.OrderedDict(arguments))
    return changed.args, changed.kwargs


@contextlib.contextmanager
def _as_users_run() -> Iterator[None]:
    """Standard promotion, no shape checker's verdicts, warnings not shown."""
    with (
        warnings.catch_warnings(),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        warnings.simplefilter("ignore")
        yield


def _too_long(*_: Any) -> None:
    raise TooLong


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, if a callback swallowed it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def judge(trial: Trial, seconds: float = 20.0) -> Outcome:
    """Make the call and say what became of it."""
    args, kwargs = _replaced(trial)
    message, place = "", ""
    try:
        with contextlib.redirect_stdout(io.StringIO()), _as_users_run(), _limited(seconds):
            jax.block_until_ready(trial.call.function(*args, **kwargs))
        kind = "returned"
    except TooLong:
        kind = "hang"
    except Exception as error:
        kind, message, place = _kind_of(error, trial.argument)
    return Outcome(trial.call.name, trial.argument, trial.mutation, kind, message, place)


def _kind_of(error: Exception, argument: str) -> tuple[str, str, str]:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if str(SOURCE) in frame.filename]
    message = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    place = f"{Path(ours[-1].filename).relative_to(SOURCE)}:{ours[-1].lineno}" if ours else ""
    if isinstance(error, ValueError | TypeError | UnlazyError):
        if re.search(rf"`(\w+\.)*{re.escape(argument)}\b", str(error)):
            return "clear", message, place
        if re.search(r"`\w[^`]*` must", str(error)) or isinstance(error, UnlazyError):
            return "other name", message, place
        # An estimator must leave the texts of scikit-learn's checks as they are: its own tests of
        # estimators match them.
        theirs = "/sklearn/" in Path(frames[-1].filename).as_posix()
        if theirs and place[:11] in ("", "estimators/"):
            return "clear", message, place
    return "unclear", message, place


def report(outcomes: list[Outcome], show: int) -> str:
    """A table of the outcomes per room, and the most frequent places of unclear ones."""
    kinds = ("returned", "clear", "other name", "unclear", "hang")
    counts = collections.Counter((outcome.room, outcome.kind) for outcome in outcomes)
    lines = [f"{'room':12} {'calls':>6} " + " ".join(f"{kind:>10}" for kind in kinds)]
    for room in [*sorted({outcome.room for outcome in outcomes}), None]:
        row = [
            sum(c for (r, k), c in counts.items() if k == kind and room in (r, None))
            for kind in kinds
        ]
        lines.append(f"{room or 'all':12} {sum(row):6} " + " ".join(f"{c:10}" for c in row))
    places = collections.Counter()
    samples = {}
    for outcome in outcomes:
        if outcome.kind in ("unclear", "hang", "other name"):
            spot = (outcome.kind, outcome.name, outcome.argument, outcome.place)
            places[spot] += 1
            samples.setdefault(spot, []).append(f"{outcome.mutation}: {outcome.message}")
    for spot, count in places.most_common(show):
        lines.append(f"{count:4} {spot[0]} {spot[1]}({spot[2]}) at {spot[3]}")
        lines += [f"         {sample[:150]}" for sample in samples[spot][:2]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rooms", nargs="*", default=rooms())
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--show", type=int, default=40)
    options = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    jax.config.update("jax_disable_most_optimizations", True)
    calls = record(options.rooms)
    if options.names:
        calls = [call for call in calls if call.name in options.names]
    outcomes = [judge(trial) for trial in trials(calls)]
    sys.stdout.write(report(outcomes, options.show) + "\n")


if __name__ == "__main__":
    main()
