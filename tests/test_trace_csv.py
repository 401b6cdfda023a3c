"""Traces from CSV files, against intervals and calls counted by hand or tried second by second."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import noshow as ns
from noshow.trace import Trace, from_csv


def csv(folder: Path, text: str) -> Path:
    (folder / "given.csv").write_text(text, "utf-8")
    return folder / "given.csv"


def answers(trace: Trace) -> dict[str, list[bool]]:
    """Each client's answers, round by round."""
    found: dict[str, list[bool]] = {}
    for entry in trace:
        found.setdefault(entry.client, []).append(entry.status == "answered")
    return found


def test_intervals_by_hand(tmp_path: Path) -> None:
    """Rounds of 10 s from second 100 on: 100-110, 110-120, 120-130; what is left after 130 is no whole round."""
    file = csv(
        tmp_path,
        "client,start,end\n"
        "anna,100,120\n"
        "anna,120,130.5\n"  # touches the one before: she is there throughout
        "bert,101,125\n"  # only 110-120 as a whole
        "bert,121,135\n"  # together with the one before: 120-130 too
        "carl,0100.0,1.1e2\n"
        "carl,110.000001,130\n"
        "dora,115,115\n",
    )
    trace = from_csv(file, round_seconds=10, examples=7)
    assert answers(trace) == {
        "anna": [True, True, True],
        "bert": [False, True, True],
        "carl": [True, False, True],
        "dora": [False, False, False],
    }
    assert trace.sampled == 4
    assert {entry.n for entry in trace} == {7}
    assert {entry.reason for entry in trace if entry.status == "silent"} == {"unavailable"}
    assert [entry.time for entry in trace][::4] == [datetime(1970, 1, 1, 0, 1, s, tzinfo=UTC) for s in (40, 50)] + [
        datetime(1970, 1, 1, 0, 2, tzinfo=UTC)
    ]


def test_intervals_tried_second_by_second(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    there: dict[str, np.ndarray] = {}
    lines = ["end,client,start"]
    for client in ("a", "b", "c"):
        there[client] = np.zeros(300, bool)
        for start, length in zip(rng.integers(0, 200, 6), rng.integers(0, 80, 6), strict=True):
            there[client][start : start + length] = True
            lines.append(f"{start + length},{client},{start}")
    first = int(np.flatnonzero(np.any(list(there.values()), axis=0))[0])
    last = int(np.flatnonzero(np.any(list(there.values()), axis=0))[-1]) + 1
    trace = from_csv(csv(tmp_path, "\n".join(lines)), round_seconds=7)
    rounds = (last - first) // 7
    assert answers(trace) == {
        client: [bool(seconds[first + 7 * t : first + 7 * t + 7].all()) for t in range(rounds)]
        for client, seconds in there.items()
    }


def test_calls(tmp_path: Path) -> None:
    file = csv(
        tmp_path,
        "\ufeffround, client, status, reason, n\n"
        '3,"b, the second",silent,timeout,20\n\n1,a,answered,,5\n3,a,silent,,5\n',
    )
    assert [tuple(entry) for entry in from_csv(file, round_seconds=60)] == [
        (1, "a", "answered", "", 5, datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
        (3, "b, the second", "silent", "timeout", 20, datetime(1970, 1, 1, 0, 3, tzinfo=UTC)),
        (3, "a", "silent", "", 5, datetime(1970, 1, 1, 0, 3, tzinfo=UTC)),
    ]
    plain = from_csv(csv(tmp_path, "status,round,client\nsilent,0,a\n"), examples=9)
    assert [tuple(entry)[:5] for entry in plain] == [(0, "a", "silent", "", 9)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"given.csv begins with '': give the columns client,start,end, or round,client,status"),
        ("who,when\n", "begins with 'who,when': give the columns"),
        ("round,client,status,round\n", "begins with"),
        ("client,start,end\n", "has no intervals: a trace needs one or more"),
        ("client,start,end\na,1\n", "line 2 of .*given.csv has 2 cells: give 3, one a column"),
        ("client,start,end\na,one,2\n", "line 2 of .*: start is 'one': give a number of seconds"),
        ("client,start,end\na,0,nan\n", "line 2 of .*: end is 'nan': give a number of seconds"),
        ("client,start,end\na,0,1e300\n", "end is '1e300': give a number of seconds"),
        ("client,start,end\na,3,2\n", "line 2 of .* ends before it starts: exchange the two"),
        ("client,start,end\na,0,2\n", "ends before its first round does: give shorter rounds"),
        ("client,start,end\na,0,1000000000\n", "makes 100,000,000 rounds of 1 clients, too many for a trace"),
        ("round,client,status\n", "the trace is empty"),
        ("round,client,status\n-1,a,silent\n", "line 2 of .*: round is '-1': give a whole number, 0 or more"),
        ("round,client,status\n99999999999999999,a,silent\n", "would be after the year 9999"),
        ("round,client,status\n3000000000,a,silent\n", "the rows make no trace"),
        ("round,client,status\n1,a,late\n", "has a status 'late': give 'answered' or 'silent'"),
        ("round,client,status\n1,a,silent\n1,a,silent\n", "has client 'a' twice in round 1"),
        ("round,client,status,n\n1,a,silent,0\n", "with n = 0: give 1 example or more"),
        ("round,client,status,n\n1,a,silent,few\n", "n is 'few': give a whole number, 1 or more"),
        ("round,client,status\n1,,answered\n1,b,silent\n", "has a client without a name: give each its own"),
        ('round,client,status\n1,"a,silent\n', "given.csv cannot be read: unexpected end of data"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ns.NoshowError, match=sentence):
        from_csv(csv(tmp_path, text), round_seconds=10)


def test_what_is_asked_is_checked(tmp_path: Path) -> None:
    file = csv(tmp_path, "client,start,end\na,0,100\n")
    with pytest.raises(ns.NoshowError, match="has intervals: say how long a round takes"):
        from_csv(file)
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ns.NoshowError, match=r"round_seconds is .*: give a number of seconds above zero"):
            from_csv(file, round_seconds=seconds)
    with pytest.raises(ns.NoshowError, match="examples is 0: give 1 or more"):
        from_csv(file, round_seconds=10, examples=0)
    with pytest.raises(ns.NoshowError, match="cannot be read: "):
        from_csv(tmp_path / "nowhere.csv")
    (tmp_path / "bytes.csv").write_bytes(b"client,start,end\n\xff\xfe,0,1\n")
    with pytest.raises(ns.NoshowError, match=r"bytes\.csv cannot be read: 'utf-8' codec"):
        from_csv(tmp_path / "bytes.csv", round_seconds=1)
