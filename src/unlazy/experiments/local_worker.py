# SPDX-License-Identifier: Apache-2.0
"""A worker process of this machine, which computes the cells that come by its standard input.

    python -m unlazy.experiments.local_worker JOBS [CORE ...]

Each message is a number, a length, and a pickle of that length: tasks come in, and what came of
them goes out by the standard output. What cells print goes to the standard error. The worker ends
with its standard input, and so with the run that has started it, whatever ends that.
"""

import os
import pickle
import struct
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

_HEAD = struct.Struct("<QQ")  # the number of a task, and how many bytes follow


def packed(thing: Any) -> bytes:
    """The content of a message."""
    return pickle.dumps(thing)


def unpacked(content: bytes) -> Any:
    """What was packed, by another process of this run alone: no content comes from a file."""
    return pickle.loads(content)


def send(stream: IO[bytes], number: int, content: bytes) -> None:
    """Write a message; the stream must be no other thread's meanwhile."""
    stream.write(_HEAD.pack(number, len(content)) + content)
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[int, bytes] | None:
    """Read a message; None if the other side has ended, be it in the middle of one."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    number, length = _HEAD.unpack(head)
    content = stream.read(length)
    return (number, content) if len(content) == length else None


def main(jobs: int, cores: list[int]) -> None:
    """Compute `jobs` tasks at a time, on these cores alone, until the standard input ends."""
    if cores:
        os.sched_setaffinity(0, cores)  # before libraries count the cores
    tasks, answers = _taken_from_cells()
    writing = threading.Lock()

    def work(number: int, content: bytes) -> None:
        try:
            outcome = _packed_safely(_outcome(content, jobs))
        except BaseException:  # of an error that cannot be looked at
            outcome = packed(_failure("it raised an error that cannot be shown."))
        with writing:
            try:
                send(answers, number, outcome)
            except OSError:  # the cell has closed it, or nobody listens
                os._exit(1)

    pool = ThreadPoolExecutor(jobs)
    while message := receive(tasks):
        pool.submit(work, *message)
    os._exit(0)  # threads at work would go on


def _taken_from_cells() -> tuple[IO[bytes], IO[bytes]]:
    """The streams of tasks and answers, where neither cells nor what they start come by them."""
    tasks, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # as long as the process
    sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]  # the worker ends without emptying it

    def close() -> None:
        # A process that outlives the worker would hold the pipe open. Not by the streams, which
        # would write once more what the worker is about to write.
        os.close(tasks)
        os.close(answers)

    os.register_at_fork(after_in_child=close)
    return os.fdopen(tasks, "rb"), os.fdopen(answers, "wb")


def _outcome(content: bytes, jobs: int) -> Any:
    """The answer to a task, or the error that it raised."""
    try:
        from unlazy.experiments.tasks import perform

        return perform(unpacked(content), jobs=jobs)
    except Exception as error:
        _note_origin(error)
        return error
    except BaseException as error:  # of a library that exits, say
        return _told(error)


def _note_origin(error: Exception) -> None:
    """Write where it was raised into the error: a pickle leaves that out."""
    cause = error.args[0] if error.args and isinstance(error.args[0], Exception) else error
    cause.add_note("".join(traceback.format_tb(cause.__traceback__)).rstrip())


def _packed_safely(outcome: Any) -> bytes:
    """The outcome, or what it says if no other process could read it."""
    from unlazy.experiments.tasks import CellFailure

    cause = outcome.args[0] if isinstance(outcome, CellFailure) else outcome
    try:
        content = packed(outcome)
        if isinstance(outcome, Exception):
            unpacked(content)  # errors with arguments of their own fail only here
            str(cause)
        return content
    except Exception:
        return packed(_told(cause))


def _told(cause: Any) -> Exception:
    """An error that says what this one says, and is of a kind that every process knows."""
    return _failure(f"{type(cause).__name__}: {cause}")


def _failure(text: str) -> Exception:
    from unlazy.experiments.tasks import CellFailure

    return CellFailure(RuntimeError(text))


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(core) for core in sys.argv[2:]])
