"""The report in a real browser: Chromium, without a screen. Skipped where it, its driver or Selenium is missing."""

from __future__ import annotations

import base64
import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from reported import HOSTILE, contents_of, diverging, made, make_hostile, with_law_off
from scipy import stats

from noshow.report import write_comparison, write_report
from noshow.spec import realise
from noshow.store import RunFolder

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if CHROMIUM is None or DRIVER is None:
    pytest.skip("no Chromium with its driver is installed", allow_module_level=True)

from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.select import Select  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

pytestmark = pytest.mark.slow
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1280,900"
)
METRICS = ("train_loss", "test_loss", "test_accuracy", "gradient_norm")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def lawful(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("runs") / "lawful")


@pytest.fixture(scope="module")
def alone(lawful: Path) -> Path:
    """The report of one run."""
    write_report([lawful], lawful / "report.html")
    return lawful / "report.html"


@pytest.fixture(scope="module")
def both(lawful: Path) -> Path:
    """The report of two runs, one of them of one seed and without a law."""
    lawless = with_law_off(lawful.parent / "lawless")
    write_report([lawful, lawless], lawful.parent / "both.html")
    return lawful.parent / "both.html"


@pytest.fixture
def opened(browser: Any) -> Callable[..., Any]:
    """Opens a page, with dark colours preferred or as a phone, and waits until it is drawn, without a complaint."""

    def open_page(file: Path, dark: bool = False, width: int = 1280) -> Any:
        browser.get_log("browser"), browser.get_log("performance")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(file.as_uri())
        WebDriverWait(browser, 60).until(lambda _: ready(browser))
        assert browser.get_log("browser") == []
        return browser

    return open_page


def ready(browser: Any) -> bool:
    return browser.execute_script("return document.documentElement.dataset.ready") is not None


def settled(browser: Any, condition: Callable[[], bool]) -> None:
    WebDriverWait(browser, 20).until(lambda _: condition())


def visible(browser: Any, chart: str) -> set[tuple[str, int]]:
    """The lines that a chart shows, by algorithm and run."""
    script = (
        "return document.getElementById(arguments[0]).data.filter(t => t.visible !== false && t.name).map(t => t.meta)"
    )
    return {(meta["algorithm"], meta["run"]) for meta in browser.execute_script(script, f"chart-{chart}")}


def rows(browser: Any, table: str) -> list[list[str]]:
    """The words in the rows that a table shows."""
    script = """return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].filter(row => !row.hidden)
                .map(row => [...row.cells].map(cell => cell.innerText.trim()))"""
    return [list(row) for row in browser.execute_script(script, table)]


def tick(browser: Any, word: str) -> None:
    browser.execute_script(
        "[...document.querySelectorAll('.chip')].find(c => c.innerText.trim() === arguments[0]).click()", word
    )


def last(run: Path, label: str, metric: str) -> np.ndarray:
    file = "diagnostics" if metric == "gradient_norm" else "metrics"
    table = pq.read_table(run / label / f"{file}.parquet").to_pylist()
    end = max(row["round"] for row in table)
    return np.array([row[metric] for row in table if row["round"] == end], np.float64)


def as_number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_nothing_is_asked_of_the_network(alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [event["params"] for event in events if event["method"] == "Network.requestWillBeSent"]
    asked = {request["request"]["url"] for request in sent if request["documentURL"] == alone.as_uri()}
    assert {url for url in asked if not url.startswith("data:")} == {alone.as_uri()}


def test_the_policy_lets_nothing_out(alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1.0)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        script = "fetch(arguments[0]).then(() => arguments[1]('out'), () => arguments[1]('kept in'))"
        assert browser.execute_async_script(script, address) == "kept in"
        browser.execute_script("document.body.append(Object.assign(new Image(), {src: arguments[0]}))", address)
        with pytest.raises(TimeoutError):
            server.accept()


def test_the_table_holds_the_numbers_of_the_files(lawful: Path, alone: Path, opened: Callable[..., Any]) -> None:
    table = {row[0]: row[1:] for row in rows(opened(alone), "final-table")}
    assert set(table) == {"fedavg", "mifa", "slow"}
    for label, cells in table.items():
        for cell, metric in zip(cells, METRICS, strict=False):
            values = last(lawful, label, metric)
            mean, interval = cell.split("\n")
            expected = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
            assert as_number(mean) == pytest.approx(values.mean(), abs=6e-5)
            assert [as_number(end) for end in interval.split(" to ")] == pytest.approx(expected, abs=6e-5)


def test_the_charts_hold_the_numbers_of_the_files(lawful: Path, alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    script = "return document.getElementById('chart-train_loss').data.filter(t => t.name).map(t => [t.name, t.x, t.y])"
    lines = browser.execute_script(script)
    assert [name for name, _, _ in lines] == ["fedavg", "mifa", "slow"]
    for name, x, y in lines:
        table = pq.read_table(lawful / name / "metrics.parquet").to_pylist()
        means = [np.mean([row["train_loss"] for row in table if row["round"] == t]) for t in x]
        assert y == pytest.approx(means, rel=1e-7)
    drawn = browser.execute_script("return document.querySelectorAll('#chart-train_loss .scatterlayer .trace').length")
    assert drawn == 6  # a line and a band each


def test_algorithms_and_runs_can_be_put_aside(both: Path, opened: Callable[..., Any]) -> None:
    browser = opened(both)
    everything = {(label, run) for label in ("fedavg", "mifa", "slow") for run in (0, 1)}
    assert visible(browser, "train_loss") == everything
    assert len(rows(browser, "final-table")) == 6
    tick(browser, "mifa")
    without = {line for line in everything if line[0] != "mifa"}
    settled(browser, lambda: visible(browser, "train_loss") == visible(browser, "test_accuracy") == without)
    assert {row[0] for row in rows(browser, "final-table")} == {"fedavg", "slow"}
    tick(browser, "■ off (written)")
    settled(browser, lambda: visible(browser, "test_loss") == {("fedavg", 0), ("slow", 0)})
    assert len(rows(browser, "final-table")) == 2
    tick(browser, "mifa")
    tick(browser, "■ off (written)")
    settled(browser, lambda: visible(browser, "train_loss") == everything)


def test_axes_become_logarithmic(alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)

    def kinds() -> list[str]:
        script = """return ['train_loss', 'test_accuracy'].flatMap(name => {
                    const {xaxis, yaxis} = document.getElementById(`chart-${name}`)._fullLayout;
                    return [xaxis.type, yaxis.type] })"""
        return list(browser.execute_script(script))

    assert kinds() == ["linear", "log", "linear", "linear"]
    tick(browser, "rounds")
    settled(browser, lambda: kinds() == ["log", "log", "log", "linear"])
    tick(browser, "losses and gradients")
    settled(browser, lambda: kinds() == ["log", "linear", "log", "linear"])


def test_headings_sort(lawful: Path, alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    rising = sorted(("fedavg", "mifa", "slow"), key=lambda label: last(lawful, label, "test_loss").mean())
    heading = browser.find_element(By.XPATH, "//div[@id='final-table']//th[button='test loss']")
    heading.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert [row[0] for row in rows(browser, "final-table")] == rising
    assert heading.get_attribute("aria-sort") == "ascending"
    heading.find_element(By.TAG_NAME, "button").click()
    assert [row[0] for row in rows(browser, "final-table")] == rising[::-1]
    assert heading.get_attribute("aria-sort") == "descending"


def test_differences_are_to_whom_the_reader_chooses(lawful: Path, alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    Select(browser.find_element(By.ID, "paired-base")).select_by_value("mifa")
    table = {row[0]: row[1:] for row in rows(browser, "paired-table")}
    assert set(table) == {"fedavg", "slow"}
    for label, cells in table.items():
        ours, theirs = last(lawful, label, "train_loss"), last(lawful, "mifa", "train_loss")
        interval = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
        mean, ends = cells[0].split("\n")
        assert as_number(mean) == pytest.approx((ours - theirs).mean(), abs=6e-5)
        assert [as_number(end) for end in ends.split(" to ")] == pytest.approx([*interval], abs=6e-5)


def test_one_seed_has_no_interval_and_the_page_says_so(both: Path, opened: Callable[..., Any]) -> None:
    browser = opened(both)
    assert "with one seed there is no interval" in browser.find_element(By.ID, "numbers-lead").text
    single = [row for row in rows(browser, "final-table") if row[1] == "■ off (written)"]
    assert len(single) == 3
    assert all(" to " not in cell for row in single for cell in row)


def test_the_roll_call_answers_to_keys(lawful: Path, alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    Select(browser.find_element(By.ID, "roll-call-seed")).select_by_visible_text("5")
    settled(browser, lambda: "seed 5" in browser.find_element(By.ID, "epsilon-note").text)
    calls = [row for row in pq.read_table(lawful / "fedavg" / "roll_call.parquet").to_pylist() if row["seed"] == 5]
    heard, lost = (
        [sum(client in row[who] for row in calls) for client in range(12)] for who in ("responders", "silenced")
    )
    order = sorted(range(12), key=lambda client: (-lost[client], client))
    canvas = browser.find_element(By.ID, "picture")
    for t, client in list(enumerate(order))[1:8]:
        canvas.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
        states = {"answered": "responders", "silenced": "silenced"}
        state = next((word for word, who in states.items() if client in calls[t][who]), "not sampled")
        said = browser.find_element(By.ID, "cell").text
        assert said.startswith(f"Client {client}, round {t}: {state}.")
        times = f"answered {heard[client]} and silenced {lost[client]} of {heard[client] + lost[client]} call"
        assert times in said


def test_the_picture_shows_who_was_silenced(alone: Path, opened: Callable[..., Any]) -> None:
    """The pixels in the middle of some cells, in the colours of the key."""
    browser = opened(alone)
    run = contents_of(alone.read_text("utf-8"))["runs"][0]
    seed = run["roll_calls"][0]["seeds"][0]
    order = sorted(range(12), key=lambda client: (-seed["silenced"][client], client))
    table = pq.read_table(alone.parent / "fedavg" / "roll_call.parquet").to_pylist()
    calls = [row for row in table if row["seed"] == seed["seed"]]
    script = """
        const canvas = document.getElementById('picture'), draw = canvas.getContext('2d');
        const [x, y, w, h] = arguments[0].map(Number);
        return [...draw.getImageData(x, y, w, h).data]"""
    width = browser.execute_script("return document.getElementById('picture').clientWidth")
    height, left = 16, 30 + 90 + 8
    across = width - left - 150 - 8
    seen = {}
    for row, client in enumerate(order):
        for t in range(0, 40, 7):
            place = [int(left + (t + 0.5) / 40 * across), 26 + row * height + 8, 1, 1]
            red, green, _, alpha = browser.execute_script(script, place)
            kind = "none" if alpha < 128 else "silenced" if red > green else "answered"
            seen[client, t] = kind
    expected = {
        (client, t): "silenced"
        if client in calls[t]["silenced"]
        else "answered"
        if client in calls[t]["responders"]
        else "none"
        for client, t in seen
    }
    assert seen == expected
    assert set(expected.values()) == {"none", "answered", "silenced"}


def test_a_run_that_is_not_finished_or_diverged_is_told(
    lawful: Path, tmp_path: Path, opened: Callable[..., Any]
) -> None:
    run = Path(shutil.copytree(lawful, tmp_path / "run"))
    shutil.rmtree(run / "slow")
    diverging(run, "mifa", seed=5, after=20)
    write_report([run], tmp_path / "report.html")
    browser = opened(tmp_path / "report.html")
    notices = browser.find_element(By.ID, "notices").text
    assert "this run is not finished. Missing: slow (not begun, of 20 rounds)" in notices
    assert "mifa diverged (seed 5 by round 20)" in notices
    table = {row[0]: row[1] for row in rows(browser, "final-table")}
    assert table["mifa"] == "diverged"
    for _ in range(2):  # whichever way it is sorted, who has no number stands last
        browser.find_element(By.XPATH, "//div[@id='final-table']//button[.='train loss']").click()
        assert [row[0] for row in rows(browser, "final-table")] == ["fedavg", "mifa"]


def test_a_run_of_which_nothing_is_finished_can_be_shown(
    lawful: Path, tmp_path: Path, opened: Callable[..., Any]
) -> None:
    run = Path(shutil.copytree(lawful, tmp_path / "run"))
    for label in ("fedavg", "mifa", "slow"):
        shutil.rmtree(run / label)
    write_report([run], tmp_path / "report.html")
    browser = opened(tmp_path / "report.html")
    assert browser.find_element(By.ID, "curves-lead").text == "No algorithm has finished yet."
    assert 'name = "small"' in browser.find_element(By.TAG_NAME, "pre").text


def test_words_from_files_are_only_words(lawful: Path, tmp_path: Path, opened: Callable[..., Any]) -> None:
    run = Path(shutil.copytree(lawful, tmp_path / "run"))
    make_hostile(run)
    write_report([run], tmp_path / "report.html")
    browser = opened(tmp_path / "report.html")
    assert browser.title == "small (written) – noshow"
    assert browser.find_elements(By.CSS_SELECTOR, "img[src=x]") == []
    for place in ("#summaries p", "dd", "pre"):
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent).join('')"
        shown = browser.execute_script(script, place)
        assert HOSTILE.replace('"', '\\"') in shown or HOSTILE in shown


def test_the_spec_is_copied(lawful: Path, alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    browser.execute_script(
        "navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }"
    )
    browser.find_element(By.CLASS_NAME, "copy").click()
    settled(browser, lambda: browser.find_element(By.CLASS_NAME, "copy").text == "Copied")
    assert browser.execute_script("return window.copied") == (lawful / "spec.toml").read_text("utf-8")


def test_an_old_browser_shows_the_tables_and_says_what_is_missing(alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone)
    script = {"source": "delete window.DecompressionStream"}
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", script)
    browser.get(alone.as_uri())
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    settled(browser, lambda: "cannot draw the charts" in browser.find_element(By.ID, "notices").text)
    assert not browser.find_element(By.ID, "charts").is_displayed()
    assert not browser.find_element(By.ID, "roll-call").is_displayed()
    assert {row[0] for row in rows(browser, "final-table")} == {"fedavg", "mifa", "slow"}


def brightness(browser: Any) -> float:
    colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    return float(np.mean([int(part) for part in colour[4:-1].split(",")]))


def test_colours_follow_the_system_until_the_reader_chooses(alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone, dark=True)
    assert brightness(browser) < 60
    browser.find_element(By.ID, "theme").click()
    assert brightness(browser) > 200
    assert brightness(opened(alone)) > 200


def test_a_small_screen_does_not_scroll_sideways(both: Path, opened: Callable[..., Any]) -> None:
    browser = opened(both, width=320)
    script = "return [document.documentElement.scrollWidth, window.innerWidth]"
    for width in (320, 390, 768):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        settled(browser, lambda size=size: browser.execute_script(script) == [size["width"]] * 2)  # type: ignore[misc]


@pytest.mark.parametrize(("dark", "width"), [(False, 1280), (True, 390)])
def test_axe_finds_nothing_serious(dark: bool, width: int, both: Path, opened: Callable[..., Any]) -> None:
    axe = pytest.importorskip("axe_core_python.selenium", reason="axe-core-python is not installed")
    browser = opened(both, dark=dark, width=width)
    browser.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    found = axe.Axe().run(browser)
    assert len(found["passes"]) > 15
    serious = [
        (rule["id"], [node["html"] for node in rule["nodes"]][:3])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_it_prints_light_and_within_the_paper(alone: Path, opened: Callable[..., Any]) -> None:
    browser = opened(alone, dark=True)
    browser.execute_script("window.seen = []")
    browser.execute_script("""
        addEventListener('beforeprint', () => window.seen.push(
            document.documentElement.dataset.theme,
            Math.max(...[...document.querySelectorAll('.main-svg')].map(svg => svg.width.baseVal.value))))""")
    pdf = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    theme, widest = browser.execute_script("return window.seen")
    assert theme == "light"
    assert widest <= 340  # two charts side by side on A4
    settled(browser, lambda: brightness(browser) < 60)


def test_histories_in_no_folder_make_a_page(opened: Callable[..., Any], lawful: Path, tmp_path: Path) -> None:
    folder = RunFolder.open(lawful)
    histories = [folder.load(label) for label in folder.finished]
    write_comparison(histories, realise(folder.spec).federation, tmp_path / "mine.html")
    browser = opened(tmp_path / "mine.html")
    assert {row[0] for row in rows(browser, "final-table")} == set(folder.finished)
    shown = browser.find_element(By.TAG_NAME, "main").text
    assert "null" not in shown
    assert "undefined" not in shown
    assert not browser.find_element(By.ID, "bounds").is_displayed()
    assert not browser.find_elements(By.CSS_SELECTOR, "button.copy")
