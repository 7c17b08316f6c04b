# SPDX-License-Identifier: Apache-2.0
"""Worker processes of this machine, and the places for cells that they have.

They are started as commands of their own, not by `multiprocessing`, which would run the script that
is being run once more in each of them. They talk through pipes, and end when this process does.

Workers share what there is: processor cores are divided between them, since a program of JAX slows
down where others want the same cores; an accelerator's memory is divided likewise. Where there is
an accelerator, cells that are for the processor have workers of their own, beside it.
"""

import contextlib
import itertools
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import IO, NamedTuple, cast

from unlazy.core.errors import UnlazyError
from unlazy.core.machine import cores
from unlazy.experiments.local_worker import packed, receive, send, unpacked
from unlazy.experiments.tasks import CellFailure, Outcome, Task

_MOST_DEATHS = 10  # of workers without an answer; a cell that kills them is given up before
_BESIDE = 0.015  # of an accelerator's memory, for each process
_ENDING = 2.0  # seconds that a worker has to end when it is told to


class Post(NamedTuple):
    """What a worker is started with: for which cells, how many at a time, and its share."""

    takes: frozenset[bool]  # cells for the processor, others, or both
    jobs: int
    cores: tuple[int, ...]  # none for all
    environment: Mapping[str, str]


@dataclass(eq=False)
class _Worker:
    post: Post
    process: subprocess.Popen[bytes]
    tasks: dict[int, Task] = field(default_factory=dict)  # that it has
    has_ended: bool = False
    is_reserved: bool = False  # for the one task that it has
    listener: threading.Thread = field(init=False)

    @property
    def free(self) -> int:
        """For how many more cells it has room."""
        if self.has_ended or (self.is_reserved and self.tasks):
            return 0
        return self.post.jobs - len(self.tasks)

    def suits(self, task: Task, *, alone: bool) -> bool:
        """Whether it has room for a task, and nothing else if that must be alone."""
        has_room = self.free > 0 and not (alone and self.tasks)
        return has_room and task.on_processor in self.post.takes

    def listen(self, done: "queue.SimpleQueue[_Message]") -> None:
        """Queue each answer, and at last the end."""
        try:
            with cast(IO[bytes], self.process.stdout) as stream:
                while message := receive(stream):
                    done.put((self, message))
        finally:
            done.put((self, None))

    def is_silent(self) -> bool:
        """Whether it has ended, though a process that it left behind holds its pipe open."""
        if self.has_ended or self.process.poll() is None:
            return False
        self.listener.join(1.0)
        return self.listener.is_alive()

    def close(self, seconds: float) -> int:
        """End it within so many seconds, with what it has started; returns its exit code."""
        with contextlib.suppress(OSError):  # what it had not read is lost
            cast(IO[bytes], self.process.stdin).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        with contextlib.suppress(OSError):  # they have ended
            os.killpg(self.process.pid, signal.SIGKILL)
        code = self.process.wait()
        self.listener.join(1.0)
        return code


_Message = tuple[_Worker, tuple[int, bytes] | None]


class LocalPlaces:
    """Workers on these posts, started inside of `with`; `note` is told of those that die."""

    def __init__(self, posts: Sequence[Post], note: Callable[[str], None]) -> None:
        self.posts, self.note = posts, note
        self.deaths = 0  # since the last answer
        self.workers: list[_Worker] = []
        # A worker has ended when nothing comes after its last answer.
        self._done: queue.SimpleQueue[_Message] = queue.SimpleQueue()
        self._number = 0
        self._refused: list[tuple[Task, Outcome]] = []  # that could not be sent
        self._suspects: set[str] = set()  # digests of cells, one of which has killed a worker

    def __enter__(self) -> "LocalPlaces":
        try:
            for post in self.posts:
                self.workers.append(self._start(post))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.process.terminate()
        deadline = time.monotonic() + _ENDING
        for worker in self.workers:
            worker.close(max(0.0, deadline - time.monotonic()))

    @property
    def room(self) -> int:
        """How many cells the workers compute at a time."""
        return sum(post.jobs for post in self.posts)

    def look(self) -> list[tuple[Task, bool]]:
        """Start those workers again that have ended; returns their tasks.

        With each task comes whether the worker was killed by it: not if it had several. They are
        given alone from then on.
        """
        lost: list[tuple[Task, bool]] = []
        for number, worker in enumerate(self.workers):
            if not worker.has_ended and not worker.is_silent():
                continue
            worker.has_ended = True
            self._count(worker.close(_ENDING))
            tasks = list(worker.tasks.values())
            self._suspects.update(task.cell.digest for task in tasks)
            lost += [(task, len(tasks) == 1) for task in tasks]
            self.workers[number] = self._start(worker.post)
        return lost

    def _count(self, code: int) -> None:
        fate = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        self.deaths += 1
        if self.deaths > _MOST_DEATHS:
            raise UnlazyError(f"workers ended {self.deaths} times, at last {fate}.")
        self.note(f"a worker ended {fate}; another is started.")

    def first(self, waiting: Collection[Task]) -> int | None:
        """The place in the queue of the first task that a worker has room for."""
        if not any(worker.free > 0 for worker in self.workers):
            return None
        return next((i for i, task in enumerate(waiting) if self._suiting(task)), None)

    def _suiting(self, task: Task) -> list[_Worker]:
        alone = task.cell.digest in self._suspects
        return [worker for worker in self.workers if worker.suits(task, alone=alone)]

    def give(self, task: Task) -> None:
        """Give a task to a worker that has room for it; the emptiest, so that none has all."""
        worker = max(self._suiting(task), key=lambda worker: worker.free)
        try:
            content = packed(task)
        except Exception as error:  # of its configuration's
            self._refused.append((task, CellFailure(error)))
            return
        self._number += 1
        worker.tasks[self._number] = task
        worker.is_reserved = task.cell.digest in self._suspects
        with contextlib.suppress(OSError):  # it has ended, which its standard output will tell
            send(cast(IO[bytes], worker.process.stdin), self._number, content)

    def show(self, waiting: Collection[Task]) -> None:
        """Do nothing: there is no cluster that could grow."""

    def answers(self, timeout: float) -> list[tuple[Task, Outcome]]:
        """What has come of tasks, at once or within so many seconds."""
        found, self._refused = self._refused, []
        while not self._done.empty() or not found:
            try:
                worker, message = self._done.get(timeout=timeout)
            except queue.Empty:
                break
            if message is None:
                worker.has_ended = True
                break  # it is to be looked at
            number, content = message
            if task := worker.tasks.pop(number, None):
                found.append((task, unpacked(content)))
                self.deaths = 0
        return found

    def tasks(self) -> list[Task]:
        """Those that workers have."""
        given = [task for worker in self.workers for task in worker.tasks.values()]
        return given + [task for task, _ in self._refused]

    def stop(self, *, finish: bool) -> None:
        """Give no further task; with `finish`, wait for those at work, which are then stored."""
        if finish and self._at_work():
            self.note("the cells at work are finished first.")
        while finish and self._at_work():
            self.answers(1.0)

    def _at_work(self) -> bool:
        return any(
            worker.tasks and not worker.has_ended and worker.process.poll() is None
            for worker in self.workers
        )

    def has_lost(self, error: BaseException) -> bool:
        """Whether an error comes of a broken connection, of which there is none."""
        del error
        return False

    def _start(self, post: Post) -> _Worker:
        # Without the working folder among the modules: it is there already if it should be.
        command = [sys.executable, "-P", "-m", "unlazy.experiments.local_worker", str(post.jobs)]
        process = subprocess.Popen(
            [*command, *map(str, post.cores)],
            env=post.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, which ends the workers
        )
        worker = _Worker(post, process)
        worker.listener = threading.Thread(target=worker.listen, args=[self._done], daemon=True)
        worker.listener.start()
        return worker


def posts(count: int, jobs: int | None, kinds: Collection[bool]) -> list[Post]:
    """The posts of so many workers, for cells of these kinds: on the processor, or anywhere.

    Where an accelerator is to be shared and some cells are for the processor, workers for those are
    added, one for each second core.
    """
    plain = _environment({})
    shared = _environment(_memory(count))
    places = _places(shared) if _has_plugins() else None
    if places is None or not places[0]:
        return _on_cores(count, jobs or 1, frozenset({False, True}), _own_cores(), plain)
    found: list[Post] = []
    if False in kinds:
        found = [Post(frozenset({False}), jobs or places[1], (), shared)] * count
    if True in kinds:
        own, without = _own_cores(), plain | {"JAX_PLATFORMS": "cpu"}
        if found:  # the first half is left to those that compile for the accelerator
            count, jobs = max(1, cores() // 2), 1
            own = own[-count:]
        found += _on_cores(count, jobs or 1, frozenset({True}), own, without)
    return found


def _on_cores(
    count: int,
    jobs: int,
    takes: frozenset[bool],
    own: Sequence[int],
    environment: Mapping[str, str],
) -> list[Post]:
    """Posts that divide these cores; if there are fewer cores than posts, all have all."""
    if count > len(own):
        return [Post(takes, jobs, (), environment)] * count
    bounds = [len(own) * i // count for i in range(count + 1)]
    shares = [tuple(own[low:high]) for low, high in itertools.pairwise(bounds)]
    return [Post(takes, jobs, share, environment) for share in shares]


def _own_cores() -> list[int]:
    """The numbers of the cores that this process may use; none where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _has_plugins() -> bool:
    """Whether JAX may find an accelerator; else nobody need be asked."""
    return bool(entry_points(group="jax_plugins"))


def _memory(count: int) -> dict[str, str]:
    """Settings by which so many processes share an accelerator's memory.

    Each takes some beside its share: contexts, programs and libraries, some 2 GiB on an H200, where
    six processes with .15 each ran out of memory.
    """
    share = max(0.9 / count - _BESIDE, 0.5 / count)
    return {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{share:.3f}",
    }


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """What workers find: our modules, and settings that the user has not made."""
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return {**settings, **os.environ, "PYTHONPATH": path}


def _places(environment: Mapping[str, str]) -> tuple[bool, int]:
    """Whether a worker has an accelerator, and how many cells fit its part of it.

    Another process is asked, in the workers' environment: JAX in this one would take memory.
    """
    code = (
        "import jax; from unlazy.experiments.workers import default_jobs; "
        "print(jax.default_backend() != 'cpu', default_jobs())"
    )
    asked = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    match asked.stdout.split()[-2:]:
        case [b"True", jobs] if jobs.isdigit():
            return True, int(jobs)
    return False, 1
