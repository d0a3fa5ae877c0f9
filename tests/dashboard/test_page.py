"""The dashboard in a real browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from penstock.dashboard.serving import listen
from penstock.plan.decision import Decision
from penstock.store import history
from penstock.store.mailbox import is_running
from penstock.store.turn import Review, Veto
from tests.control.doubles import flow

from .browser import FLAGS, TOKEN, chromium, dashboard, served
from .runs import ticks, write

pytestmark = pytest.mark.ui
expect.set_options(timeout=15_000)
Open = Callable[..., Page]
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield found
        found.close()


@pytest.fixture
def look(browser: Browser) -> Iterator[Open]:
    """Open an address. Nothing may go wrong in the page, and nothing may come from elsewhere."""
    wrong: list[str] = []
    pages: list[Page] = []

    def opened(url: str, width: int = 1280, height: int = 900, scheme: str = "light") -> Page:
        base = url.partition("#")[0]
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        pages.append(page)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: said.type == "error" and wrong.append(said.text))
        page.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        page.on("request", lambda one: one.url.startswith(base) or wrong.append(one.url))
        page.goto(url)
        return page

    yield opened
    for page in pages:
        page.context.close()
    # a browser says by itself that a server is gone, and that an answer was a refusal
    told = re.compile(r"net::ERR_|status of 409")
    assert [one for one in wrong if not told.search(one)] == []


@pytest.fixture(scope="module")
def replayed(past: Path) -> Iterator[str]:
    with served(past) as url:
        yield url


@pytest.fixture(scope="module")
def live_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a flow that runs, simulated five times as fast as time passes."""
    run_dir = tmp_path_factory.mktemp("live") / "run"
    command = [sys.executable, "-m", "tests.dashboard.live", str(run_dir), "5"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 30
        while not (run_dir.is_dir() and is_running(run_dir)):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        yield run_dir
        process.send_signal(signal.SIGINT)
        process.wait(20)


@pytest.fixture(scope="module")
def live(live_dir: Path) -> Iterator[str]:
    with served(live_dir) as url:
        yield url


def operator(page: Page, name: str) -> Page:
    return page.locator(f'.operator[data-name="{name}"]')  # type: ignore[return-value]


# --- a run that is over -------------------------------------------------------------------------


def test_the_graph_is_drawn(look: Open, replayed: str, past: Path) -> None:
    page = look(replayed)
    expect(page.locator("h1")).to_have_text("wordcount")
    expect(page.locator("#phase")).to_have_text("over")
    expect(page.locator(".operator")).to_have_count(5)
    expect(page.locator(".flow")).to_have_count(4)
    last = [*history.recorded_snapshots(past)][-1]
    expect(page.locator(".pipeline")).to_have_count(len(last.plan.pipelines))
    for pipeline in last.plan.pipelines:
        box = page.locator(f'.pipeline[data-pipeline="{pipeline.name}"]')
        expect(box.locator(".times")).to_have_text(f"{TIMES}{pipeline.parallelism}")
        expect(box.locator(".dot")).to_have_count(min(pipeline.parallelism, 20))
    big, small = (
        float(operator(page, n).locator(".body").get_attribute("r") or 0)
        for n in ("count", "parse")
    )
    assert big > 1.5 * small  # count does most of the work


def test_a_replayed_run_shows_the_decisions_of_its_history(
    look: Open, replayed: str, past: Path
) -> None:
    page = look(replayed)
    made = [*history.transitions(past)]
    told = {one["turn"]: one for one in history.decisions(past)}
    items = page.locator('#list .decision[data-kind="changed"]')
    expect(items).to_have_count(len(made))
    turns = items.evaluate_all("all => all.map(one => Number(one.dataset.turn))")
    assert turns == [one.turn for one in reversed(made)]
    expect(page.locator("#strip .mark-changed")).to_have_count(len(made))
    for one in made[:2]:
        item = page.locator(f'.decision[data-turn="{one.turn}"]')
        item.locator("summary").click()
        reason, numbers = told[one.turn]["reason"], told[one.turn]["numbers"]
        expect(item.locator(".what")).to_have_text(
            "; ".join(one.transition.changes).replace("->", "→")
        )
        expect(item.locator(".body p").first).to_have_text(reason.replace("->", "→"))
        shown = item.locator(".figures").first.locator("dt").all_text_contents()
        assert shown == list(numbers)
        item.get_by_role("button", name="Show this moment").click()
        expect(item).to_have_class(re.compile("now"))
        expect(page.locator("#current")).to_contain_text(reason)
        before = next(history.recorded_snapshots(past, [one.turn])).plan
        expect(page.locator(".pipeline")).to_have_count(len(before.pipelines))


def test_a_run_is_played_and_stopped(look: Open, replayed: str) -> None:
    page = look(replayed)
    clock = page.locator("#clock")
    expect(clock).to_have_text(re.compile(r"^2:0\d of 2:0\d$"))
    page.select_option("#speed", "60")
    page.get_by_role("button", name="Play").click()
    expect(clock).to_have_text(re.compile(r"^0:[1-9]\d of"))
    expect(page.locator(".pipeline")).to_have_count(1)  # as it began
    page.get_by_role("button", name="Pause").click()
    stopped = clock.text_content()
    page.wait_for_timeout(400)
    assert clock.text_content() == stopped
    page.get_by_role("button", name="To the end").click()
    expect(clock).to_have_text(re.compile(r"^2:0\d of"))


def test_it_is_used_by_keyboard(look: Open, replayed: str) -> None:
    page = look(replayed)
    expect(page.locator(".operator")).to_have_count(5)
    page.locator("#theme").focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement"
    assert page.evaluate(f"{focused}.dataset.name") == "tweets"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(f"{focused}.dataset.name") == "split"
    ring = page.evaluate(f"getComputedStyle({focused}.querySelector('.ring')).stroke")
    assert ring not in ("none", "rgba(0, 0, 0, 0)")
    page.keyboard.press("Enter")
    expect(page.locator("#detail-title")).to_have_text("split")
    expect(operator(page, "split")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#detail-title")).to_have_text("The flow")
    page.locator("#scrub").focus()
    page.keyboard.press("PageDown")
    expect(page.locator(".decision.now")).to_have_count(1)
    last = page.locator("#list .decision").first.get_attribute("data-turn")
    expect(page.locator(".decision.now")).to_have_attribute("data-turn", last or "")
    at = page.locator("#clock").text_content()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#clock")).not_to_have_text(at or "")


@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_has_two_colours(look: Open, replayed: str, width: int) -> None:
    page = look(replayed, width=width, scheme="dark")
    expect(page.locator(".operator")).to_have_count(5)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.locator("#theme").click()
    light = page.evaluate(ground)
    assert dark != light
    page.reload()
    expect(page.locator(".operator")).to_have_count(5)
    assert page.evaluate(ground) == light


def test_nothing_in_a_run_becomes_markup(look: Open, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    graph = flow().graph
    first, second, third = graph.operators
    turns = ticks(graph, tmp_path / "engine", 3)
    veto = Veto("rule" + evil, "because " + evil)
    wanted = Decision(
        turns[1].plan.with_pipeline("double", parallelism=2), f"<b>{evil}</b>", {evil: 1.5}
    )
    turns[1] = replace(
        turns[1], decision=replace(wanted, plan=None), review=Review(wanted, wanted, (veto,))
    )
    turns[2] = replace(turns[2], error=f"boom {evil}", refused=None)
    hostile = replace(
        graph,
        name=evil,
        operators=(replace(first, name=evil), replace(second, inputs=(evil,)), third),
        constraints=(),
    )
    renamed = [
        replace(
            t,
            plan=replace(
                t.plan,
                pipelines=tuple(
                    replace(p, operators=tuple(evil if n == "numbers" else n for n in p.operators))
                    for p in t.plan.pipelines
                ),
            ),
        )
        for t in turns
    ]
    write(tmp_path / "run", hostile, renamed)
    with served(tmp_path / "run") as url:
        page = look(url)
        expect(page.locator("h1")).to_have_text(evil)
        expect(page.locator(".operator")).to_have_count(3)
        expect(page.locator(".operator title").first).to_have_text(evil)
        expect(page.locator("#list .decision")).to_have_count(2)
        expect(page.locator('[data-kind="failed"] .what')).to_have_text(f"boom {evil}")
        page.locator('[data-kind="vetoed"] summary').click()
        expect(page.locator('[data-kind="vetoed"] .body')).to_contain_text(f"<b>{evil}</b>")
        expect(page.locator('[data-kind="vetoed"] dt').first).to_have_text(evil)
        page.locator(".operator").first.click()
        expect(page.locator("#detail-title")).to_have_text(evil)
        page.wait_for_timeout(300)
        assert page.locator("img:not(.mark), b:has(img), script:not([src])").count() == 0


def test_a_run_that_has_not_begun_says_so(look: Open, tmp_path: Path) -> None:
    with served(tmp_path) as url:
        page = look(url)
        expect(page.locator("#phase")).to_have_text("starting")
        expect(page.locator("#detail")).to_have_text("Nothing was measured yet.")
        graph = flow().graph
        write(tmp_path, graph, ticks(graph, tmp_path / "engine", 3))
        expect(page.locator(".operator")).to_have_count(3)


# --- a run that is under way --------------------------------------------------------------------


def test_numbers_change_as_the_run_goes_on(look: Open, live: str) -> None:
    page = look(live)
    expect(page.locator("#phase")).to_have_text("running")
    clock, so_far = page.locator("#clock"), page.locator(".tile .note").first
    expect(so_far).to_have_text(re.compile("so far"))
    before = clock.text_content(), so_far.text_content()
    expect(clock).not_to_have_text(before[0] or "")
    expect(so_far).not_to_have_text(before[1] or "")


def test_a_button_scales_the_running_flow(look: Open, live: str, live_dir: Path) -> None:
    page = look(live)
    assert TOKEN not in page.url  # it is taken out of the address
    page.get_by_role("button", name="Off").click()  # so that nobody else changes anything
    expect(page.locator("#answer")).to_have_text("the policy of this run is now: off")
    expect(page.get_by_role("button", name="Off")).to_have_attribute("aria-pressed", "true")
    operator(page, "count").click()
    page.locator("#instances").fill("5")
    page.get_by_role("button", name="Scale", exact=True).click()
    expect(page.locator("#answer")).to_contain_text("parallelism")
    box = page.locator(".pipeline", has=page.locator(".times", has_text=f"{TIMES}5"))
    expect(box).to_have_count(1)
    made = [*history.transitions(live_dir)][-1].transition
    assert re.search(r"parallelism \d+ -> 5", made.changes[0])
    assert made.reason.startswith("asked")
    expect(page.locator('#list [data-kind="changed"]').first).to_contain_text("→ 5")


def test_other_buttons_and_what_is_refused(look: Open, live: str, live_dir: Path) -> None:
    page = look(live)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    words = page.get_by_label("A request in words")
    words.fill("nobody=3")
    words.press("Enter")
    expect(page.locator("#answer.bad")).to_contain_text("'nobody' is no operator")
    operator(page, "count").click()
    joins = page.get_by_role("button", name=re.compile("^Fuse with"))
    cut = page.get_by_role("button", name="Split before count")
    expect(joins.or_(cut).first).to_be_visible()
    number = page.locator(".pipeline").count()
    if cut.is_visible():
        cut.click()
        expect(page.locator(".pipeline")).to_have_count(number + 1)
    else:
        joins.first.click()
        expect(page.locator(".pipeline")).to_have_count(number - 1)


def test_without_the_token_one_can_only_look(look: Open, live: str) -> None:
    page = look(live.partition("#")[0])
    expect(page.locator(".operator")).to_have_count(5)
    expect(page.locator("#ask")).to_contain_text("open the address that was printed")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)


def test_a_lost_connection_is_told_and_comes_back_without_a_gap(look: Open, live_dir: Path) -> None:
    with listen(0) as free:
        port = free.getsockname()[1]
    first = dashboard(live_dir, port)
    try:
        page = look(f"http://127.0.0.1:{port}/#token={TOKEN}")
        expect(page.locator("#phase")).to_have_text("running")
        first.kill()
        expect(page.locator("#phase")).to_have_text("connection lost")
        expect(page.locator("[data-notice=lost]")).to_contain_text(
            "The connection to the dashboard is lost"
        )
    finally:
        first.kill()
        first.communicate()
    with served(live_dir, port):
        expect(page.locator("#phase")).to_have_text("running")
        expect(page.locator(".notice.good")).to_contain_text("and is back since")
        clock = page.locator("#clock").text_content()
        expect(page.locator("#clock")).not_to_have_text(clock or "")
        # a point for every turn, also for those that came while nobody listened
        drawn = "one => one.getAttribute('d').split(/[ML]/).length - 1"
        points = page.locator("path.line.sustained").evaluate(drawn)
        assert points >= len(history.turn_times(live_dir)) - 5 > 10
