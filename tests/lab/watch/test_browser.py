"""The page in a browser: a live group with a careless member, whose violation shows while it runs, and afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from plainchant.lab.watch.server import served
from plainchant.lab.watch.sources import Spools
from plainchant.lab.watch.verdict import NoVerdict, SparkVerdict, collected

from .careless import careless

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page
    from pyspark.sql import SparkSession

EVIL = "<b><img src=x onerror=alert(1)><script>1</script>"
PATIENCE = 90_000
"""Milliseconds; conditions are waited for, so a slow machine only takes longer."""
UNNAMED = """[...document.querySelectorAll('button, select, canvas, [role=region], [role=log]')].filter((each) =>
    !(each.textContent || each.ariaLabel || each.getAttribute('aria-labelledby') || each.closest('label'))).length"""
"""How many things that a person can use or look at have no name for those who do not see them."""
DRAWN = "[...document.getElementById('flow').getContext('2d').getImageData(0, 0, 300, 60).data].some((each) => each)"


@contextmanager
def opened(
    browser: Browser, url: str, *, scheme: Literal["light", "dark"] = "light", width: int = 1200
) -> Iterator[tuple[Page, list[str]]]:
    """A page, and everything that went wrong in it."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))

    def refuse(dialog: Dialog) -> None:
        problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", refuse)
    try:
        page.goto(url)
        yield page, problems
    finally:
        context.close()


def test_a_violation_shows_while_its_group_runs_and_at_the_end(browser: Browser, spark: SparkSession, tmp_path: Path) -> None:
    """The group has a name that would be markup if anything were; it is text everywhere."""
    spools = tmp_path / "spools"
    source = Spools(spools)
    verdict = SparkVerdict(collected(spools, lambda: source.size))
    verdict.start()
    try:
        with served(source, "127.0.0.1:0", verdicts=verdict) as watch, opened(browser, watch.url) as (page, problems):
            with careless(spools, EVIL):
                page.wait_for_selector("#violations article")
                assert page.inner_text("#verdict strong") == "Violated"
                story = page.inner_text("#violations article >> nth=0")
                assert "identical" in story
                assert "ben" in story
                assert "It is withdrawn if" in story
                assert page.inner_text("#groups h3") == f"Group {EVIL}"
                assert "live" in page.inner_text("#title")
                page.wait_for_selector("#processes .state.running >> nth=2")
            page.wait_for_selector("#properties-text:text-is('The whole verification.')")
            assert page.inner_text("#verdict strong") == "Violated"
            assert "ended" in page.inner_text("#title")
            assert page.locator("main img, main b img, main script").count() == 0
            assert problems == []
    finally:
        verdict.stop()


def test_it_can_be_read_in_light_and_dark_on_wide_and_narrow_screens_and_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    spools = tmp_path / "spools"
    seen = set()
    with served(Spools(spools), "127.0.0.1:0", verdicts=NoVerdict("nobody asked")) as watch, careless(spools, "bank"):
        for scheme, width in (("light", 1200), ("dark", 390)):
            with opened(browser, watch.url, scheme=scheme, width=width) as (page, problems):  # type: ignore[arg-type]
                page.wait_for_selector("#processes tbody tr >> nth=2")
                assert page.inner_text("#verdict") == "No verdict\n\nnobody asked"
                assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"too wide for {width}"
                end = time.monotonic() + PATIENCE / 1000
                while not page.evaluate(DRAWN):  # its policy lets nobody wait inside the page
                    assert time.monotonic() < end, "nothing is drawn"
                    time.sleep(0.05)
                background = "getComputedStyle(document.body).backgroundColor"
                before = page.evaluate(background)
                seen.add(before)
                for _ in range(3):
                    page.focus("#theme")
                    page.keyboard.press("Enter")
                    seen.add(page.evaluate(background))
                assert page.evaluate(background) == before
                page.focus("#pause")
                page.keyboard.press("Space")
                assert page.get_attribute("#pause", "aria-pressed") == "true"
                assert page.evaluate(UNNAMED) == 0
                assert problems == []
    assert len(seen) == 2, "light and dark have different backgrounds, and the switch reaches both"


def test_a_server_that_is_gone_is_told(browser: Browser, tmp_path: Path) -> None:
    with served(Spools(tmp_path), "127.0.0.1:0") as watch:
        url = watch.url
        context = opened(browser, url)
        page, _ = context.__enter__()
        page.wait_for_selector("#what:has-text('spools')")
    try:
        page.wait_for_selector("#lost:not([hidden])")
        assert "what stands here is old" in page.inner_text("#lost")
    finally:
        context.__exit__(None, None, None)
