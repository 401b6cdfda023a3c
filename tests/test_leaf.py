"""LEAF's Shakespeare rules: each on a play made up for it, all of them on the real text by LEAF's published counts."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DATA
from hypothesis import given
from hypothesis import strategies as st

import noshow as ns
from noshow.datasets import shakespeare_files
from noshow.datasets.leaf import LETTERS, VOCABULARY, WINDOW, Speaker, decode, encode, speakers, split

SIGNED = "by William Shakespeare"
LONG = "so foul and fair a day I have not seen, how far is it called to Forres"


def said(*lines: str, title: str = "MACBETH", work: list[str] | None = None) -> dict[str, str]:
    """What each role says in a play of these lines."""
    work = work or ["1606", "", title, "", SIGNED, *lines]
    return {speaker.role: speaker.text for speaker in speakers("\r\n".join(work))}


def speech(role: str, *lines: str) -> list[str]:
    """A speech of at least three lines, long enough to be kept."""
    return [f"  {role}. {lines[0]}", *(f"    {line}" for line in (*lines[1:], LONG, LONG))]


def spoken(*lines: str) -> str:
    return " ".join((*lines, LONG, LONG)) + " "


@pytest.fixture(scope="module")
def works() -> list[Speaker]:
    if shakespeare_files.find(DATA) is None:
        pytest.skip(f"Shakespeare's text is not in {DATA}")
    return speakers(shakespeare_files.text(str(DATA)).decode("utf-8-sig"))


class TestRealText:
    def test_published_counts(self, works: list[Speaker]) -> None:
        examples = np.array([speaker.examples for speaker in works])
        assert (len(works), examples.sum()) == (1129, 4_226_158)
        assert examples.mean() == pytest.approx(3743.28, abs=0.005)
        assert examples.std() == pytest.approx(6212.26, abs=0.005)

    def test_the_split_leaves_660(self, works: list[Speaker]) -> None:
        assert sum(len(split(speaker.examples)[1]) > 0 for speaker in works) == 660

    def test_36_plays_and_every_role_once(self, works: list[Speaker]) -> None:
        plays = {speaker.play for speaker in works}
        assert len(plays) == 36  # without Pericles and The Two Noble Kinsmen, which this edition does not have
        assert {"THE COMEDY OF ERRORS", "THE TEMPEST", "LOVE'S LABOUR'S LOST"} < plays
        assert not any("SONNET" in play or "COMPLAINT" in play for play in plays)
        assert len({(speaker.play, speaker.role) for speaker in works}) == len(works)

    def test_no_character_outside_the_table(self, works: list[Speaker]) -> None:
        assert set("".join(speaker.text for speaker in works)) == set(LETTERS) - {"\n"}

    def test_a_text_read_by_eye(self, works: list[Speaker]) -> None:
        text = {(speaker.play, speaker.role): speaker.text for speaker in works}
        assert text["ALLS WELL THAT ENDS WELL", "COUNTESS"].startswith(
            "In delivering my son from me, I bury a second husband. What hope is there of his Majesty's amendment? "
            "This young gentlewoman had a father- O, that 'had,' how sad a passage 'tis!-whose skill"
        )


def test_speeches_of_a_role_are_joined_in_order() -> None:
    lines = [*speech("FIRST WITCH", "When shall"), *speech("MACDUFF", "O horror"), *speech("FIRST WITCH", "we three")]
    assert said(*lines) == {
        "FIRST WITCH": spoken("When shall") + spoken("we three"),
        "MACDUFF": spoken("O horror"),
    }


def test_names_are_compared_in_capitals() -> None:
    lines = [*speech("Sir Toby", "a"), *speech("MARIA", "b"), *speech("SIR TOBY", "c")]
    assert said(*lines)["SIR TOBY"] == spoken("a") + spoken("c")


def test_a_speech_goes_on_after_what_stands_at_the_margin() -> None:
    lines = [*speech("KING", "a"), "", "Enter ROSS", "  in haste", "    and so on", *speech("ROSS", "b")]
    assert said(*lines)["KING"] == spoken("a") + "and so on "


def test_runs_of_spaces_become_one() -> None:
    lines = [*speech("KING", "What   bloody  man"), "          Exeunt", *speech("ROSS", "b")]
    assert said(*lines)["KING"] == spoken("What bloody man") + "Exeunt "


@pytest.mark.parametrize(
    "line",
    ["KING. at the margin", " KING. one space", "   KING. three", "  K1NG. a digit", "  KING, a comma.", "  KING."],
)
def test_what_does_not_open_a_speech(line: str) -> None:
    lines = [*speech("ROSS", "a"), line, "    more", *speech("LENNOX", "b")]
    assert said(*lines) == {"ROSS": spoken("a") + "more ", "LENNOX": spoken("b")}


def test_roles_need_three_lines() -> None:
    long = [LONG, LONG]
    two, three = [f"  ROSS. {LONG}", f"    {LONG}"], ["  ANGUS. a", *(f"    {line}" for line in long)]
    assert list(said(*two, *three)) == ["ANGUS"]


def test_roles_need_one_example() -> None:
    lines = ["  ROSS. " + "a" * 77, "    b", "    ", "  ANGUS. " + "a" * 76, "    b", "    "]
    # 77 + 1 characters, a space after each line, the last two spaces drawn together: 80 of 81 needed.
    assert list(said(*lines)) == []
    lines[0] = "  ROSS. " + "a" * 78
    assert said(*lines) == {"ROSS": "a" * 78 + " b "}


def test_one_voice_makes_no_play() -> None:
    assert said(*speech("POET", "a"), *speech("POET", "b")) == {}
    # The other voice need not be kept itself.
    assert list(said(*speech("POET", "a"), "  ECHO. a")) == ["POET"]


def test_a_new_work_ends_the_last_speech() -> None:
    first, second = [*speech("KING", "a"), *speech("ROSS", "b")], ["    nobody's line", *speech("PUCK", "c")]
    work = ["A", "", SIGNED, *first, "B", "", SIGNED, *second, *speech("KING", "d")]
    found = {(speaker.play, speaker.role): speaker.text for speaker in speakers("\n".join(work))}
    assert found == {
        ("A", "KING"): spoken("a"),
        ("A", "ROSS"): spoken("b"),
        ("B", "PUCK"): spoken("c"),
        ("B", "KING"): spoken("d"),
    }


@pytest.mark.parametrize("above", [2, 3, 7])
def test_the_title_stands_two_to_seven_lines_above(above: int) -> None:
    head = ["1606", "THE TITLE", *[""] * (above - 2), "ignored, one line above", SIGNED]
    work = [*head, *speech("KING", "a"), *speech("ROSS", "b")]
    assert {speaker.play for speaker in speakers("\n".join(work))} == {"THE TITLE"}


def test_no_title_and_no_work() -> None:
    assert {s.play for s in speakers("\n".join([SIGNED, *speech("KING", "a"), *speech("ROSS", "b")]))} == {""}
    assert speakers("") == []


def test_the_comedy_of_errors_has_no_indentation() -> None:
    play = [
        "ACT I. SCENE 1",
        "",
        f"Duke. {LONG}",
        "",
        "  Enter a merchant",
        LONG,
        "<<A NOTICE",
        "OF THE PUBLISHER>>",
        "Merchant. a",
        LONG,
        LONG,
        "ACT II. SCENE 1",
        "The mart",
        "Duke. Well met",
    ]
    assert said(*play, title="THE COMEDY OF ERRORS") == {
        "DUKE": f"{LONG} Enter a merchant {LONG} Well met ",
        "MERCHANT": f"a {LONG} {LONG} ",
    }
    assert said(*play, title="ANOTHER COMEDY") == {}


NAMES = st.sampled_from(["KING", "Queen", "QUEEN", "FIRST LORD", "A", "actor"])
WORDS = st.just(LONG) | st.text("abc ,;!'.-Z", max_size=60).map(str.rstrip)
SPEECHES = st.lists(st.tuples(NAMES, st.lists(WORDS, min_size=2, max_size=5)), min_size=2)


@given(SPEECHES)
def test_a_printed_play_reads_back(speeches: list[tuple[str, list[str]]]) -> None:
    printed: list[str] = []
    expected: dict[str, list[str]] = {}
    for name, lines in speeches:
        printed += [f"  {name}. {lines[0]}", "Enter a ghost", *(f"    {line}" for line in lines[1:]), ""]
        expected[name.upper()] = expected.get(name.upper(), []) + lines
    # A line such as "  KING. a" inside a speech would open another: no such line is made, as its name follows 4 spaces.
    kept = {}
    for name, lines in expected.items():
        text = "".join(line + " " for line in lines)
        while "  " in text:
            text = text.replace("  ", " ")
        if len(expected) > 1 and len(lines) > 2 and len(text) > 80:
            kept[name] = text
    assert said(*printed) == kept


class TestSplit:
    @given(st.integers(0, 100_000))
    def test_as_lists_of_examples(self, examples: int) -> None:
        train, test = split(examples)
        everything = list(range(examples))
        assert list(train) == everything[: len(train)]
        assert len(train) == 9 * examples // 10
        assert list(test) == everything[len(train) + 79 :]

    @given(st.integers(791, 2000))
    def test_no_test_window_overlaps_one_that_trains(self, examples: int) -> None:
        train, test = split(examples)
        assert test[0] == train[-1] + WINDOW

    def test_the_smallest_client(self) -> None:
        assert len(split(790)[1]) == 0
        assert split(791) == (range(711), range(790, 791))


class TestCodes:
    def test_a_code_is_a_place_in_the_table(self) -> None:
        assert VOCABULARY == len(set(LETTERS)) == 80
        assert encode(LETTERS).tolist() == list(range(80))
        assert encode(LETTERS).dtype == np.uint8

    @given(st.text(LETTERS))
    def test_decode_undoes_encode(self, text: str) -> None:
        assert decode(encode(text)) == text

    @pytest.mark.parametrize("letter", ["$", "\r", "\x7f", "\x80", "é", "\u2019", "\U0001f3ad"])
    def test_a_character_outside_the_table(self, letter: str) -> None:
        with pytest.raises(ns.NoshowError, match="is not in LEAF's table"):
            encode(f"To {letter} be")
