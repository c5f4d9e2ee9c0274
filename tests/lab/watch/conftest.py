"""A browser for the tests of the page: Debian's Chromium, without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
INSTALL = "apt-get install -y chromium, as .ci/run does where it may; PLAINCHANT_CHROMIUM names another one"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """For one module and not longer: playwright has an event loop in this thread, in which nobody else can run one meanwhile."""
    program = os.environ.get("PLAINCHANT_CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip(f"the page is tried in Chromium, and there is no program `chromium` on the PATH: {INSTALL}")
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        pytest.skip("the page is tried in Chromium by playwright, which is not installed: make setup")
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        except Error as error:
            pytest.skip(f"the page is tried in Chromium, and {program} does not start: {str(error).splitlines()[0]}; {INSTALL}")
        yield started
        started.close()
