"""Signals: the first asks, the next one acts."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from noshow.interrupt import asked_to_stop


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_the_second_acts(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    def ended(*_: object) -> None:
        raise InterruptedError

    outside = signal.signal(number, ended)
    asked: list[bool] = []
    try:
        with asked_to_stop(lambda: asked.append(True), "asked"):
            os.kill(os.getpid(), number)
            assert asked == [True]
            assert capsys.readouterr().err == "noshow: asked\n"
            with pytest.raises(InterruptedError):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is ended
    finally:
        signal.signal(number, outside)


def test_handlers_come_back_when_nobody_asked() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with asked_to_stop(lambda: None, ""):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] != before
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_leave_signals_alone() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with asked_to_stop(lambda: None, ""):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
