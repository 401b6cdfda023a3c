"""What a trace comes to, and its picture, against counts by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from noshow.trace import Entry, Trace, picture, summarise
from noshow.trace.picture import COLOURS

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def entry(t: int, client: str, reason: str | None, n: int) -> Entry:
    return Entry(t, client, "answered" if reason is None else "silent", reason or "", n, NOW)


LIVE = Trace.of(
    [
        entry(2, "a", None, 10),
        entry(2, "b", "timeout", 30),
        entry(3, "b", "crash", 30),
        entry(3, "c", "timeout", 100),
        entry(9, "a", None, 20),
        entry(9, "c", "", 50),
    ]
)


def test_numbers_by_hand() -> None:
    """K = 2, M = 3, N = 20 + 30 + 50, each client's last n: K N / M = 200 / 3."""
    found = summarise(LIVE)
    assert (found.first, found.last, found.rounds, found.clients, found.sampled) == (2, 9, 3, 3, 2)
    assert (found.calls, found.answered) == (6, 2)
    assert list(found.reasons.items()) == [("timeout", 2), ("(no reason given)", 1), ("crash", 1)]
    used = np.array([30, 130, 50]) / (200 / 3)
    assert found.mean_epsilon_t == pytest.approx(used.mean(), rel=1e-12)
    assert found.largest_epsilon_t == pytest.approx(1.95, rel=1e-12)
    assert found.largest_in == 3
    assert [tuple(line) for line in found.most_silent] == [("b", 2, 2), ("c", 2, 2)]


def test_clients_that_were_never_called_are_counted_and_nothing_else_changes() -> None:
    known = summarise(Trace.of(LIVE, registered=["a", "b", "c", "d"]))
    assert known == summarise(LIVE)._replace(clients=4)


def test_a_round_of_fewer_calls_has_its_own_share() -> None:
    """Two of four have left: one silent of the two that are called is a half."""
    rows = [Entry(1, name, "answered", "", 10, NOW) for name in "abcd"]
    rows += [Entry(2, "a", "answered", "", 10, NOW), Entry(2, "b", "silent", "error", 10, NOW)]
    found = summarise(Trace.of(rows, sampled=4))
    assert (found.mean_epsilon_t, found.largest_epsilon_t, found.largest_in) == (0.25, 0.5, 2)


def test_ten_of_many_clients_are_named() -> None:
    rows = [entry(t, f"site-{k}", "timeout" if t < k else None, 1) for t in range(15) for k in range(15)]
    found = summarise(Trace.of(rows))
    assert [line.client for line in found.most_silent] == [f"site-{k}" for k in range(14, 4, -1)]
    assert [line.silent for line in found.most_silent] == list(range(14, 4, -1))


def test_everybody_answered() -> None:
    found = summarise(Trace.of([entry(0, "a", None, 3)]))
    assert (found.reasons, found.most_silent, found.mean_epsilon_t) == ({}, [], 0.0)


def test_the_picture_shows_each_cell_and_each_total() -> None:
    figure = picture(LIVE, "live")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3]
    cells, totals = figure.axes
    expected = {(2, 0): 1, (2, 1): 0, (3, 1): 0, (3, 2): 0, (9, 0): 1, (9, 2): 0, (2, 2): -1, (5, 1): -1, (9, 1): -1}
    for (t, client), status in expected.items():
        x, y = cells.transData.transform((t, client))
        shade = "#{:02x}{:02x}{:02x}".format(*pixels[pixels.shape[0] - round(y), round(x)])
        assert shade == COLOURS[status], (t, client)
    assert [text.get_text().strip() for text in totals.texts] == ["2 of 2", "0 of 2", "0 of 2"]
    assert [label.get_text() for label in cells.get_yticklabels()] == ["a", "b", "c"]


def test_a_picture_of_many_clients_and_odd_names() -> None:
    FigureCanvasAgg(picture(Trace.of([entry(0, f"c{k}", None, 1) for k in range(60)]), "$x_{$")).draw()
    figure = picture(Trace.of([entry(0, "$\\frac{$" + "x" * 300, "no", 1)]))
    FigureCanvasAgg(figure).draw()
    assert len(figure.axes[0].get_yticklabels()[0].get_text()) < 30
