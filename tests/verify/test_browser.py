"""What a person does in the Prefect UI, done in a real browser."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines import stack as stacks

pytestmark = [pytest.mark.verify, pytest.mark.timeout(600)]

playwright = pytest.importorskip("playwright.sync_api")
NIGHTLY = "/deployments/name/embeddings/nightly"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture
def page() -> Iterator[Any]:
    """A page of a headless Chromium."""
    if CHROMIUM is None:
        pytest.fail("this proof needs a browser: apt-get install chromium")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def test_a_run_with_a_changed_parameter_from_the_form(
    page: Any, stack: stacks.Stack, recipe: Path, tmp_path: Path, api: Any
) -> None:
    def look(name: str) -> None:
        page.screenshot(path=tmp_path / f"{name}.png")

    page.goto(stack.prefect)
    page.get_by_role("link", name="Deployments", exact=True).click()
    # There are more than a page of them.
    page.get_by_placeholder(re.compile("Search (by deployment name|deployments)")).first.fill(
        "train-word2vec"
    )
    page.get_by_role("link", name="train-word2vec").first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Custom run").click()

    page.get_by_text("Width of the vectors").wait_for()
    page.get_by_label("recipe (Optional)").fill(str(recipe))
    page.get_by_label("epochs (Optional)").fill("1")
    page.get_by_label("min_count (Optional)").fill("1")
    dim = page.get_by_label("dim (Optional)")
    dim.fill("0")
    page.get_by_role("button", name="Submit").click()
    look("1-refused")
    assert "/run?" in page.url
    assert dim.evaluate("field => field.validity.rangeUnderflow")
    dim.fill("16")
    look("2-form")
    page.get_by_role("button", name="Submit").click()

    page.get_by_role("button", name="View run").click()
    page.wait_for_url(re.compile("/runs/flow-run/"))
    run_id = re.search("flow-run/([0-9a-f-]+)", page.url).group(1)  # type: ignore[union-attr]
    page.get_by_text("Completed", exact=True).first.wait_for(timeout=300_000)
    look("3-completed")
    page.get_by_role("tab", name="Task Runs").click()
    page.get_by_text("train word2vec").first.wait_for()
    look("4-tasks")
    page.get_by_role("tab", name="Artifacts").click()
    page.get_by_text("leaderboard-tiny").first.click()
    page.get_by_text("tiny-word2vec").first.wait_for()
    look("5-leaderboard")

    run = api.wait(run_id)
    assert (run["state_type"], run["parameters"]["dim"]) == ("COMPLETED", 16)
    assert len(list(tmp_path.glob("*.png"))) == 5


def test_the_nightly_schedule_is_switched_on(page: Any, stack: stacks.Stack, api: Any) -> None:
    page.goto(f"{stack.prefect}/v2/deployments")
    page.get_by_role("link", name="nightly").first.click()
    switch = page.get_by_role("switch", name="toggle At 02:00 AM")
    for on in (True, False):
        deadline = time.monotonic() + 120
        while api.call("GET", NIGHTLY)["schedules"][0]["active"] is not on:
            assert time.monotonic() < deadline
            # A busy server may refuse the first click; the switch then shows so, and a person
            # clicks again.
            if (switch.get_attribute("aria-checked") == "true") is not on:
                switch.click()
            time.sleep(2)
