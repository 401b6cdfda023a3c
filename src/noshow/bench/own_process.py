"""A contestant in a process of its own: its threads, devices and crashes are no one else's.

The parent starts `python -m noshow.bench.own_process`, sends what to call with which arguments, then asks for turns;
the child holds its own clock, so that only its work is timed. All that the child prints goes to a log.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from noshow.bench.task import Play, Turn
from noshow.errors import NoshowError

SECONDS_TO_END = 20


def in_own_process(
    function: str, *arguments: Any, environment: dict[str, str] | None = None
) -> Callable[[ExitStack], Play]:
    """The `begin` of a contestant whose play is what `"module:function"` returns for the arguments, over there."""

    def begin(stack: ExitStack) -> Play:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        log = folder / "log"
        with log.open("wb") as errors:
            child = subprocess.Popen(
                [sys.executable, "-m", "noshow.bench.own_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "TMPDIR": str(folder), **(environment or {})},
            )
        stack.callback(_end, child)

        def ask(what: Any) -> Any:
            try:
                _send(child.stdin, what)
                answer = _receive(child.stdout)
            except (BrokenPipeError, EOFError):
                raise NoshowError(_last_words(log)) from None
            if isinstance(answer, str):
                raise NoshowError(answer)
            return answer

        ask((function, arguments))

        def play(rounds: int, exact: bool) -> Turn:
            return Turn(*ask((rounds, exact)))

        return play

    return begin


def _end(child: subprocess.Popen[bytes]) -> None:
    """Close its questions, and give it a moment to put away what it started itself."""
    if child.stdin:
        with suppress(BrokenPipeError):
            child.stdin.close()
    try:
        child.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout:
        child.stdout.close()


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "its process ended without a word"


def _send(stream: BinaryIO | Any, what: Any) -> None:
    pickle.dump(what, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> Any:
    return pickle.load(stream)


def serve() -> None:
    """The child: make the play that is asked for, then take turns until there are no more questions."""
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints, prints to the log
    try:
        function, arguments = _receive(questions)
        module, name = function.split(":")
        play: Play = getattr(import_module(module), name)(*arguments)
        _send(answers, None)
        while True:
            rounds, exact = _receive(questions)
            _send(answers, tuple(play(rounds, exact)))
    except EOFError:  # no more questions
        return
    except Exception as error:
        with suppress(BrokenPipeError):
            _send(answers, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        raise


if __name__ == "__main__":
    serve()
    os._exit(0)  # at once, whatever threads a peer has left running
