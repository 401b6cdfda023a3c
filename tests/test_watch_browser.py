"""The live page in a real browser: Chromium, without a screen. Skipped where it, its driver or Selenium is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")

from reported import made
from selenium.webdriver.support.wait import WebDriverWait
from test_report_browser import browser  # noqa: F401
from test_watch import NOW, tell
from test_watch_page import serving

from noshow.lock import alone_in

pytestmark = pytest.mark.slow


def until(driver: Any, condition: Callable[[], Any]) -> Any:
    return WebDriverWait(driver, 30, poll_frequency=0.1).until(lambda _: condition())


def panel(driver: Any) -> dict[str, Any]:
    """What the panel says."""
    return dict(
        driver.execute_script(
            """const text = (id) => document.getElementById(id).innerText.trim();
            const words = (one) => [...one.children].map((child) => child.innerText);
            const pairs = [...document.querySelectorAll("#numbers div")].map(words);
            return {sentence: text("sentence"), rounds: text("rounds"), silent: text("silent"), label: text("label"),
                    hidden: document.getElementById("now").hidden, bar: document.getElementById("bar").value,
                    algorithms: text("algorithms").split("\\n"), numbers: Object.fromEntries(pairs)}"""
        )
    )


def within(driver: Any, script: str) -> Any:
    """What a script finds in the report: `page` is its document."""
    return driver.execute_script(
        f"const page = document.querySelector('iframe:not(.coming)')?.contentDocument; if (page) return ({script})"
    )


def algorithms(driver: Any) -> list[str]:
    found = within(driver, "[...page.querySelectorAll('#final-table tbody tr')].map(row => row.dataset.algorithm)")
    return list(found or [])


@pytest.mark.parametrize("dark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_page_follows_a_run_to_its_end(browser: Any, tmp_path: Path, dark: bool) -> None:  # noqa: F811
    run = made(tmp_path / "run")
    aside = {label: shutil.move(run / label, tmp_path / label) for label in ("mifa", "slow")}
    tell(run)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    browser.get_log("browser")
    with serving(run) as server:
        with alone_in(run):
            browser.get(server.address)
            until(browser, lambda: panel(browser)["rounds"] == "round 30 of 40")
            said = panel(browser)
            assert said["label"] == "mifa"
            assert said["sentence"] == "run by process 12 on host.example"
            assert said["algorithms"] == ["✓ fedavg", "▶ mifa", "· slow"]
            assert said["bar"] == pytest.approx(0.75)
            assert said["numbers"] == {
                "rounds a second": "2.5",
                "time left": "0:00:04",
                "train loss": "0.8125",
                "test accuracy": "0.7500",
                "εt": "0.400",
            }
            assert said["silent"] == "Silent (2 of 4 called, in the first of 3 seeds): 3, 7"
            until(browser, lambda: algorithms(browser) == ["fedavg"])
            assert browser.execute_script("return document.documentElement.dataset.theme") == scheme["value"]

            tell(run, NOW | {"round": 36, "train_loss": 0.25, "silent": [1], "silenced": 1})
            until(browser, lambda: panel(browser)["rounds"] == "round 36 of 40")
            assert panel(browser)["numbers"]["train loss"] == "0.2500"
            assert panel(browser)["silent"].endswith(": 1")

            # What the reader has chosen stays when new results come.
            within(browser, "page.getElementById('theme').click()")
            within(browser, "page.querySelector('.chip input[value=rounds]').click()")
            within(browser, "page.getElementById('clients-details').open = true")
            within(browser, "page.defaultView.scrollTo({top: 300, behavior: 'instant'})")
            shutil.move(aside["mifa"], run / "mifa")
            tell(run, NOW | {"algorithm": "slow", "round": 0, "rounds": 20}, {"fedavg": 40, "mifa": 40, "slow": 0})
            until(browser, lambda: algorithms(browser) == ["fedavg", "mifa"])
            assert within(browser, "page.querySelector('.chip input[value=rounds]').checked")
            assert within(browser, "page.getElementById('clients-details').open")
            assert within(browser, "page.defaultView.scrollY") == 300
            other = "light" if dark else "dark"
            assert within(browser, "page.documentElement.dataset.theme") == other
            assert browser.execute_script("return document.documentElement.dataset.theme") == other
            assert panel(browser)["algorithms"] == ["✓ fedavg", "✓ mifa", "▶ slow"]
        until(browser, lambda: panel(browser)["sentence"].startswith("nobody is running it: noshow run "))
        assert panel(browser)["algorithms"][2] == "■ slow"
        shutil.move(aside["slow"], run / "slow")
        until(browser, lambda: panel(browser)["sentence"] == "finished")
        until(browser, lambda: algorithms(browser) == ["fedavg", "mifa", "slow"])
        assert panel(browser)["hidden"]
        assert browser.get_log("browser") == []
    until(browser, lambda: panel(browser)["sentence"].startswith("Nobody answers"))
    assert algorithms(browser) == ["fedavg", "mifa", "slow"]
    browser.get("about:blank")
