"""The site: it builds without a warning, its links and anchors lead somewhere, and it needs no network.

What has to be seen is seen in Chromium, from the disk; that is skipped where it, its driver or Selenium is missing.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest
from documented import ROOT

pytestmark = pytest.mark.slow


class Links(HTMLParser):
    """What a page refers to, what it loads, and the places in it that can be linked to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.refers: list[str] = []
        self.loads: list[str] = []
        self.anchors = {"", "__skip"}
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag in ("a", "area") and "href" in given:
            self.refers.append(given["href"])
        elif tag == "link" or "src" in given:
            self.loads.append(given.get("href") or given.get("src") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error."""
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {page: Links(page) for page in site.rglob("*.html")}


def inside(page: Path, target: str) -> Path:
    """The file of the site that a link of a page leads to."""
    path = unquote(urldefrag(target).url)
    return (page.parent / path).resolve() if path else page.resolve()


def local(targets: list[str]) -> Iterator[str]:
    return (target for target in targets if not re.match(r"[a-z]+:", target))


def test_links_and_anchors_of_the_site_lead_somewhere(site: Path, pages: dict[Path, Links]) -> None:
    assert len(pages) > 40
    anchors = {page.resolve(): links.anchors for page, links in pages.items()}
    for page, links in pages.items():
        if page.name == "404.html":
            continue  # its links start at the address where the site will stand
        for target in local(links.refers + links.loads):
            place = inside(page, target)
            place = place / "index.html" if place.is_dir() else place
            assert place.exists(), f"{page.relative_to(site)} leads to {target}"
            fragment = unquote(urldefrag(target).fragment)
            assert place not in anchors or fragment in anchors[place], f"{page.relative_to(site)} leads to {target}"


def test_the_site_loads_nothing_from_the_network(site: Path, pages: dict[Path, Links]) -> None:
    for page, links in pages.items():
        assert list(local(links.loads)) == links.loads, page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:|@import ['\"]?https?:", sheet.read_text("utf-8")), sheet


def test_results_and_commands_are_on_the_site(site: Path) -> None:
    results = (site / "results" / "index.html").read_text("utf-8")
    for figure in (ROOT / "results").rglob("*.png"):
        assert str(figure.relative_to(ROOT / "results")) in results
    commands = (site / "reference" / "command-line.html").read_text("utf-8")
    for words in ("noshow reproduce", "noshow trace import", "--coordinator HOST:PORT|auto"):
        assert words in commands


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with its driver is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = "--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    for flag in (*flags.split(), f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    opened.set_page_load_timeout(60)
    yield opened
    opened.quit()


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_pages_fit_the_screen_and_follow_the_system(site: Path, browser: Any, width: int, dark: bool) -> None:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    for page in ("index", "how-absence-hurts", "reference/command-line", "results/index"):
        browser.get((site / f"{page}.html").as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth"), page
        broken = (
            "return [...document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src)"
        )
        assert browser.execute_script(broken) == []
        colour = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (max(map(int, re.findall(r"\d+", colour)[:3])) < 80) == dark
    assert browser.get_log("browser") == []


def test_search_finds_without_a_server(site: Path, browser: Any) -> None:
    waiting = pytest.importorskip("selenium.webdriver.support.wait")
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    browser.get((site / "tutorials" / "own-rule.html").as_uri())
    box = browser.find_element("css selector", "input[data-md-component=search-query]")
    box.click()
    box.send_keys("round_robin")
    found = lambda _: browser.find_elements("css selector", ".md-search-result__item a")  # noqa: E731
    links = waiting.WebDriverWait(browser, 20).until(found)
    assert any("reference/adversaries" in link.get_attribute("href") for link in links)
    assert browser.get_log("browser") == []
