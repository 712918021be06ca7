"""A browser explores, votes and looks at the status; skipped where there is none."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from pathlib import Path

import httpx
import pytest

from nasheval.serving.app import create_app
from nasheval.serving.demo import CannedUpstream
from nasheval.serving.settings import Settings

from .faults import JSON, upstream
from .worlds import EVIL, LANGUAGES, model_folder, served, toml

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")
expect = playwright.expect
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")

AXE = Path(os.environ.get("NASHEVAL_AXE", Path(__file__).parents[2] / "build" / "axe" / "package" / "axe.min.js"))
PAGES = ("/", "/vote", "/status")
HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
ANSWER = (
    b'{"choices": [{"message": {"content": "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"}}]}'
)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    with served(CannedUpstream("terse")) as one, served(CannedUpstream("list")) as two, served(
        upstream(200, JSON, ANSWER)
    ) as three:  # fmt: skip
        upstreams = {"terse": f"{one}/v1", "chatty": f"{two}/v1", EVIL: f"{three}/v1"}
        path = toml(folder / "upstreams.toml", upstreams)
        settings = Settings(
            model=str(model_folder()),
            store=str(folder / "votes.db"),
            upstreams=str(path),
            origins=("http://localhost:1",),
        )
        with served(create_app(settings)) as address:
            yield address, folder / "votes.db"


@pytest.fixture
def visit(browser, service):
    """Open a page; at the end none may have complained, loaded anything from elsewhere, or run a stored text."""
    contexts, complaints = [], []

    def opened(path="/", width=1400, scheme="light", ready=True):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        context.set_default_timeout(8000)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(service[0]) or complaints.append(request.url))
        page.goto(service[0] + path)
        if ready:
            page.wait_for_selector("body[data-ready]")
        if path == "/":
            page.wait_for_selector("#bars")
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("window.hacked") is None
        context.close()
    assert complaints == []


def posed(page, prompt="What is a lottery?"):
    page.fill("#prompt", prompt)
    page.click("#send")
    page.wait_for_selector("#answers article")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 820, 375])
@pytest.mark.parametrize("path", PAGES)
def test_pages_fit_and_axe_finds_nothing(visit, path, width, scheme):
    page = visit(path, width, scheme)
    if path == "/vote":
        posed(page)
    if path == "/":
        page.click("#why-button")
        page.wait_for_selector("#near-rows")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if not AXE.is_file():
        pytest.skip("axe-core is not there (npm pack axe-core in build/axe, or NASHEVAL_AXE)")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(one["id"], one["nodes"][0]["html"], one["nodes"][0]["failureSummary"]) for one in found] == []


def test_the_explorer_shows_the_decision_and_the_report(visit):
    page = visit()
    assert "chatty" in page.locator("#decision").inner_text()
    assert page.locator("#leaderboard-rows tbody tr").count() == 3
    assert page.locator("#leaderboard-rows .range").count() == 3
    assert page.locator("#leaderboard-rows .badge").count() >= 1
    assert page.locator("#matrix td").count() == 9 + 1
    assert page.locator("#frontier circle").count() > 5
    german = page.locator("#group option").filter(has_text="de (").get_attribute("value")
    page.select_option("#group", german)
    assert "terse is the only winner" in page.locator("#leaderboard-lead").inner_text()
    english = page.locator("#group option").filter(has_text="en (").get_attribute("value")
    page.select_option("#group", english)
    assert page.locator("#graph path.edge.cycle").count() == 3  # the cycle of the world


def test_the_live_lottery_follows_context_and_cost(visit):
    page = visit()
    page.select_option("#inputs select", "de")
    expect(page.locator("#bars tbody th").first).to_have_text("terse")
    assert page.locator("#bars tbody td.n").first.inner_text() == "1.00"
    page.select_option("#inputs select", "en")
    expect(page.locator("#bars tbody td.n").first).not_to_have_text("1.00")
    assert page.locator("#bars tr.won").count() == 3
    page.locator("#cost").focus()
    page.keyboard.press("End")
    expect(page.locator("#bars tbody td.n").first).to_have_text("1.00")
    assert "Expected cost 1" in page.locator("#live-reason").inner_text()
    assert page.locator("#cost-said").inner_text() == "2.00"
    page.click("#why-button")
    page.wait_for_selector("#near-rows")
    assert set(page.locator("#near-rows tbody td:nth-child(2)").all_inner_texts()) == {"en"}
    assert page.locator("#vote-rows tbody tr").count() == 10


def test_what_the_explorer_asks_is_not_kept(visit, service):
    visit()
    with sqlite3.connect(service[1]) as connection:
        kept = connection.execute("select count(*) from decisions where kind = 'route'").fetchone()
    connection.close()
    assert kept == (0,)


def test_a_vote_by_keyboard_is_stored_and_then_names_are_shown(visit, service):
    page = visit("/vote")
    page.keyboard.press("Tab")
    while page.evaluate("document.activeElement.id") != "prompt":
        page.keyboard.press("Tab")
    page.keyboard.type("What is a lottery?")
    page.select_option("#inputs select", "de")
    page.locator("#inputs input").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answers article")
    assert page.locator("#answers h3").all_inner_texts() == ["Answer A", "Answer B"]
    assert not re.search("terse|chatty", page.content())
    page.keyboard.press("2")
    page.wait_for_selector("#next")
    names = [text.partition(": ")[2] for text in page.locator("#answers h3").all_inner_texts()]
    assert set(names) < {"terse", "chatty", EVIL}
    assert page.evaluate("document.activeElement.id") == "next"
    assert "vote is stored" in page.locator("#after").inner_text()
    with sqlite3.connect(service[1]) as connection:
        menu, blocks, context = connection.execute(
            "select v.menu, v.blocks, d.context from votes v join decisions d on d.id = v.decision order by seq desc"
        ).fetchone()
    connection.close()
    assert json.loads(context) == {"language": "de"}
    assert json.loads(menu) == names
    assert json.loads(blocks)[0] == [names[1]]


@pytest.mark.parametrize(("key", "zero"), [("t", "tie"), ("b", "both_bad"), ("s", "skip")])
def test_ties_both_bad_and_skips(visit, service, key, zero):
    page = visit("/vote")
    posed(page)
    page.keyboard.press(key)
    page.wait_for_selector("#next")
    with sqlite3.connect(service[1]) as connection:
        assert connection.execute("select zero from votes order by seq desc").fetchone() == (zero,)
    connection.close()
    page.keyboard.press("1")  # a second verdict on the same answers does nothing
    votes = "0 votes" if zero == "skip" else "1 vote"
    assert page.locator("#count").inner_text() == f"{votes} from you in this visit."
    page.keyboard.press("n")
    assert page.locator("#answers-box").is_hidden()
    assert page.evaluate("document.activeElement.id") == "prompt"


def test_three_answers_and_both_orders_over_time(visit):
    page = visit("/vote?size=3&prompt=hello")
    page.wait_for_selector("#answers article")
    assert page.locator("#answers article").count() == 3
    assert page.locator("#verdicts button").all_inner_texts()[:4] == ["A is best", "B is best", "C is best", "Tie"]
    first = set()
    for _ in range(12):
        first.add(page.locator("#answer-A .said").inner_text())
        page.keyboard.press("s")
        page.wait_for_selector("#again")
        page.click("#again")
        page.wait_for_selector("#verdicts button:not(:disabled)")
    assert len(first) == 3  # one is never first with a chance of 3 (2/3)^12 = 0.02


def test_prompts_and_answers_never_run(visit):
    page = visit("/vote?size=3")
    posed(page, HOSTILE)
    text = page.locator("#answers").inner_text()
    assert "<script>window.hacked=1</script>" in text
    assert page.locator("#answers img, #answers script").count() == 0
    page.keyboard.press("1")
    page.wait_for_selector("#next")
    assert EVIL in page.locator("#answers").inner_text()
    explorer = visit("/")
    assert LANGUAGES[2] in explorer.locator("#inputs").inner_html().replace("&lt;", "<").replace("&gt;", ">")
    status = visit("/status")
    assert EVIL in status.locator("#upstreams").inner_text()


def test_the_status_says_what_happened(visit, service):
    for _ in range(35):
        httpx.post(f"{service[0]}/v1/route", json={"context": {"language": "de", "length": 0.9}})
    visit("/")
    page = visit("/status")
    page.wait_for_selector("#drift-rows", timeout=15_000)
    assert "fine" in page.locator("#facts").inner_text()
    assert "/v1/route" in page.locator("#request-rows").inner_text()
    assert "language" in page.locator("#drift-rows").inner_text()
    assert page.locator("#history-rows tbody tr").count() == 1


def test_the_policy_is_strict_and_only_the_vote_page_may_be_framed(service, browser):
    for path in PAGES:
        answer = httpx.get(service[0] + path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<script(?! src=\"static/)|<style|\son\w+=|\sstyle=", answer.text)
        framed = "'self' http://localhost:1" if path == "/vote" else "'none'"
        assert policy.endswith(f"frame-ancestors {framed}")
        assert httpx.get(service[0] + path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    assert httpx.get(f"{service[0]}/static/../scopes.py").status_code == 404
    assert httpx.get(f"{service[0]}/static/page.html").status_code == 404
    assert httpx.get(f"{service[0]}/static/dom.js").headers["content-type"].startswith("text/javascript")


def around(framed):
    """A page of another origin with the vote page in a frame; `framed` holds the service's address."""

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        page = (
            "<!doctype html><script>addEventListener('message', (e) => { window.told = e.data; })</script>"
            f"<iframe src='{framed[0]}/vote?embed=1&prompt=hi' width=700 height=700></iframe>"
        )
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": page.encode()})

    return app


def test_a_page_of_an_origin_that_was_not_named_cannot_embed_it(service, browser):
    with served(around(service)) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        assert page.frames[1].url.startswith("chrome-error")
        context.close()


def test_it_can_be_embedded_and_tells_the_page_around_it(browser, tmp_path):
    framed = []
    with served(around(framed)) as address, served(CannedUpstream("terse")) as one:
        path = toml(tmp_path / "upstreams.toml", {"terse": f"{one}/v1", "chatty": f"{one}/v1"})
        store = str(tmp_path / "votes.db")
        settings = Settings(model=str(model_folder()), store=store, upstreams=str(path), origins=(address,))
        with served(create_app(settings)) as own:
            framed.append(own)
            context = browser.new_context()
            page = context.new_page()
            page.goto(address)
            frame = page.frame_locator("iframe")
            frame.locator("#answers article").first.wait_for()
            assert frame.locator(".page-head").is_hidden()
            frame.get_by_role("button", name="A is better").click()
            frame.locator("#next").wait_for()
            assert page.evaluate("window.told") == {"source": "nasheval", "event": "voted"}
            context.close()


def test_it_says_what_is_wrong(visit, tmp_path, browser):
    settings = Settings(model=str(model_folder()), store=str(tmp_path / "votes.db"))
    with served(create_app(settings)) as address:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{address}/vote?prompt=hello")
        page.wait_for_selector("[role=alert]")
        assert "--upstreams upstreams.toml" in page.locator("#trouble").inner_text()
        context.close()


def test_with_keys_the_pages_ask_for_one(browser, tmp_path):
    from nasheval.serving.keys import new_key

    key = new_key(tmp_path / "keys.toml", "visitor", ["route"])
    other = new_key(tmp_path / "keys.toml", "voter", ["vote"])
    settings = Settings(model=str(model_folder()), store=str(tmp_path / "votes.db"), keys=str(tmp_path / "keys.toml"))
    with served(create_app(settings)) as address:
        assert httpx.get(f"{address}/v1/explore").status_code == 401
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("#key-form:not([hidden])")
        assert "asks for a key" in page.locator("#trouble").inner_text()
        assert page.locator("main > section:visible").count() == 0  # nothing is there to be shown yet
        for wrong, said in (("mistyped", "does not know this key"), (other, "may not do what this page does")):
            page.fill("#key", wrong)
            page.keyboard.press("Enter")
            page.locator("#trouble", has_text=said).wait_for()
            assert page.locator("#key-form").is_visible()
        page.fill("#key", key)
        page.keyboard.press("Enter")
        page.wait_for_selector("#bars")
        assert page.locator("#key-form").is_hidden()
        context.close()


def test_without_javascript_the_page_says_so(browser, service):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(service[0])
    assert "JavaScript" in page.locator("noscript").inner_text()
    context.close()


def test_theme_can_be_switched(visit):
    page = visit(scheme="dark")
    button = page.get_by_role("button", name="Dark mode")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    page.goto(page.url.split("#")[0] + "status")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"  # chosen for all pages
