"""A browser clicks through the report; skipped where there is none."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest

from nasheval.audit.section import Bars, Listing
from nasheval.scoring.report import render
from nasheval.scoring.report.sections import part_of
from nasheval.scoring.report.views import Payoffs, Preferences

from .report_logs import AGENTS, PAPER, ROCK, TOPICS, example, star_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra 'dev')")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the path")

WIDTHS = (1400, 820, 375)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render(example()[2]), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def visit(browser, address):
    """Open the page; at the end, it must have said and loaded nothing."""
    contexts, complaints = [], []

    def opened(width=1400, scheme="light", page=address):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        found = context.new_page()
        found.on("console", lambda message: complaints.append(message.text))
        found.on("pageerror", lambda error: complaints.append(str(error)))
        found.on(
            "request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url)
        )
        found.goto(page)
        return found

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def rows(page, table, column=1):
    """The texts of one column of a table."""
    return page.locator(f"#{table} tbody tr > *:nth-child({column})").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_and_can_be_read(visit, width, scheme):
    page = visit(width, scheme)
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(TOO_FAINT) == []
    page.select_option("#group", index=2)
    page.select_option("#column", "length")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


# Text whose contrast with what lies behind it is below 4.5 (WCAG AA); colours are painted to read them as RGB.
TOO_FAINT = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const brush = canvas.getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    brush.clearRect(0, 0, 1, 1);
    brush.fillStyle = colour;
    brush.fillRect(0, 0, 1, 1);
    return [...brush.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (colour) => {
    const [r, g, b] = rgb(colour).map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgb(colour)[3] > 200) return colour;
    }
    return "white";
  };
  const faint = [];
  for (const node of document.querySelectorAll("main *, .bar *, header *, footer")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.checkVisibility()) continue;
    const style = getComputedStyle(node), colour = node instanceof SVGElement ? style.fill : style.color;
    const [low, high] = [light(colour), light(behind(node))].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) faint.push(`${node.tagName} ${node.textContent.slice(0, 30)} ${contrast.toFixed(2)}`);
  }
  return faint;
}"""


def test_names_are_shown_as_they_are_and_run_nothing(visit):
    page = visit()
    page.wait_for_timeout(100)
    assert page.evaluate("window.hacked") is None
    assert page.locator("h1").inner_text() == example()[2].title
    assert page.title() == example()[2].title
    shown = page.locator("#leaderboard-rows tbody tr > th").evaluate_all(
        "all => all.map((th) => th.textContent.replace(/winner$/, ''))"
    )
    assert sorted(shown) == sorted(AGENTS)
    assert page.locator("#robin-table thead th").all_inner_texts() == list(example()[2].held_out["policies"])
    assert page.locator("main img, main script, main b, main u").count() == 0


def test_a_table_sorts_by_click_and_by_key(visit):
    page, view = visit(), example()[2].groups[0]
    head = page.locator("#leaderboard-rows thead th", has_text="Rating")
    assert head.get_attribute("aria-sort") == "none"

    def ratings():
        return [int(text.split("±")[0].replace(",", "")) for text in rows(page, "leaderboard-rows", 6)]

    expected = sorted((round(rating) for rating in view.rating), reverse=True)
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending"
    assert ratings() == expected
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    assert ratings() == expected[::-1]
    assert "Sorted by Rating" in page.locator("#live").inner_text()
    page.select_option("#group", index=1)  # another group keeps the order that was chosen
    assert page.locator("#leaderboard-rows thead th", has_text="Rating").get_attribute("aria-sort") == "ascending"
    assert ratings() == sorted(ratings())


def test_a_group_is_chosen_from_the_list_and_from_the_drawings(visit):
    page, report = visit(), example()[2]
    assert rows(page, "leaderboard-rows", 2) == [f"{report.groups[0].lottery[a]:.2f}" for a in report.groups[0].order]
    code = report.groups[2]
    page.select_option("#group", index=2)
    assert TOPICS[1] in page.locator("#leaderboard-h").inner_text()
    assert rows(page, "leaderboard-rows", 2) == [f"{code.lottery[a]:.2f}" for a in code.order]
    assert "No cycle holds" in page.locator("#graph-lead").inner_text()
    first = page.locator("#matrix tbody tr").nth(0).locator("td").nth(1)
    assert first.inner_text() == f"{code.payoffs.estimate[0]:+.2f}".replace("-", "−")
    page.locator("#lotteries tbody button").nth(1).click()
    assert page.input_value("#group") == "1"
    assert page.evaluate("document.activeElement.closest('#lotteries tr.chosen') !== null")
    assert "1 cycle holds" in page.locator("#graph-lead").inner_text()
    page.locator("#winners thead button").nth(2).click()
    assert page.input_value("#group") == "2"
    page.select_option("#column", "length")
    assert page.locator("#winners thead button").count() == 5
    assert page.locator("#leaderboard-h").inner_text().endswith("all contexts")


def test_significance_is_marked_where_the_interval_excludes_zero(visit):
    page, view = visit(), example()[2].groups[0]
    sure = sum(low > 0 or high < 0 for low, high in zip(view.payoffs.low, view.payoffs.high, strict=True))
    assert sure > 0
    assert page.locator("#matrix td.sure").count() == 2 * sure


@pytest.fixture
def star(visit, tmp_path):
    """The page of a star, in whose first group one pair is said to be seen elsewhere only."""
    report = star_report()
    whole = report.groups[0]
    status = list(whole.payoffs.status)
    status[status.index(1)] = 3
    payoffs = replace(whole.payoffs, status=tuple(status))
    groups = (replace(whole, payoffs=payoffs), *report.groups[1:])
    path = tmp_path / "star.html"
    path.write_text(render(replace(report, groups=groups)), encoding="utf-8")
    return lambda **how: visit(page=path.as_uri(), **how)


def test_pairs_not_compared_are_marked_in_form_and_in_words(star):
    page = star()
    marks = {"bridged": 4, "elsewhere": 2, "unknown": 16}
    assert {mark: page.locator(f"#matrix td.{mark}").count() for mark in marks} == marks
    assert page.locator("#matrix td.sure").count() == 8  # the pairs that were seen, and none of the others
    words = {mark: page.locator(f"#matrix td.{mark}").first.get_attribute("aria-label") for mark in marks}
    assert re.search(r"bridged: never compared; any transitive voters allow \S+ to \S+$", words["bridged"])
    assert "compared elsewhere, not here" in words["elsewhere"]
    assert "nothing connects them" in words["unknown"]
    assert page.locator("#matrix td.unknown").first.inner_text() == "?"
    style = "all => all.map((n) => getComputedStyle(n).outlineStyle)"
    assert set(page.locator("#matrix td.bridged").evaluate_all(style)) == {"dashed"}
    key = page.locator("#matrix .key").inner_text()
    assert all(text in key for text in ("never compared: bridged", "compared elsewhere", "nothing connects them"))
    assert "can only tell a ladder" in page.locator("#graph-lead").inner_text()
    assert "can only tell a ladder" in page.locator("#findings").inner_text()
    assert rows(page, "leaderboard-rows", 8)[0] == "2"  # strong has never met middling and weak


def test_a_row_and_its_column_allow_mirrored_bounds(star):
    page = star()
    cells = page.locator("#matrix td.bridged").evaluate_all("all => all.map((n) => n.dataset.tip)")
    found = {}
    for tip in cells:
        pair, _, ground = tip.split("\n")
        low, high = re.search(r"allow (\S+) to (\S+)$", ground).groups()
        found[tuple(pair.split(" over "))] = tuple(float(end.replace("−", "-")) for end in (low, high))
    for (one, other), (low, high) in found.items():
        assert found[other, one] == (-high, -low)
        assert low <= high


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_group_without_one_agent_can_be_read(star, scheme):
    page = star(scheme=scheme)
    assert page.evaluate(TOO_FAINT) == []
    page.select_option("#group", index=2)
    assert page.locator("#matrix tbody tr").count() == 5
    assert page.locator("#graph circle").count() == 5
    assert page.locator("#leaderboard-rows tbody tr").count() == 5
    assert "1 agent without a vote here is left out" in page.locator("#leaderboard-lead").inner_text()
    assert "of 6 agents" not in page.locator("#payoffs").inner_text()
    assert page.evaluate(TOO_FAINT) == []


def test_cycles_are_drawn_and_one_can_be_picked(visit):
    page = visit()
    page.select_option("#group", index=1)
    assert page.locator("#graph path.edge.cycle").count() == 3
    assert page.locator("#graph path.edge").count() == len(example()[2].groups[1].preferences.edges)
    button = page.locator("#cycles button").first
    assert ROCK in button.text_content()
    button.press("Space")
    assert page.locator("#cycles button").first.get_attribute("aria-pressed") == "true"
    assert page.locator("#graph path.edge.faded").count() == 3  # the weak one's edges
    assert PAPER in page.locator("#graph svg").get_attribute("aria-label")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_switched(visit, scheme):
    page = visit(scheme=scheme)
    shade = "parseInt(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    button, dark = page.get_by_role("button", name="Dark mode"), scheme == "dark"
    assert (page.evaluate(shade) < 100) is dark
    assert button.get_attribute("aria-pressed") == str(dark).lower()
    button.click()
    assert (page.evaluate(shade) < 100) is not dark
    assert button.get_attribute("aria-pressed") == str(not dark).lower()
    assert page.evaluate(TOO_FAINT) == []


def test_everything_is_reached_by_keyboard(visit):
    page, seen = visit(), []
    for _ in range(80):
        page.keyboard.press("Tab")
        seen.append(
            page.evaluate("(() => { const a = document.activeElement; return a.id || a.closest('[id]')?.id; })()")
        )
    for part in ("column", "group", "theme", "leaderboard-rows", "winners", "lotteries", "matrix", "worst-rows"):
        assert part in seen, (part, seen)
    cell = page.locator("#matrix tbody td").nth(0)
    cell.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("[document.activeElement.cellIndex, document.activeElement.parentElement.rowIndex]") == [2, 2]
    page.keyboard.press("ArrowUp")
    assert "vote" in page.locator("#tip").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_controls_tables_and_drawings_have_names(visit):
    page = visit()

    def without_name(what, named):
        return page.evaluate(f"[...document.querySelectorAll('{what}')].filter((n) => !({named})).length")

    assert without_name("table", "n.caption?.textContent.trim()") == 0
    assert without_name("svg[role=img], .scroll", "n.getAttribute('aria-label')") == 0
    assert without_name("button", "n.textContent.trim() || n.getAttribute('aria-label')") == 0
    assert without_name("select", "n.labels.length") == 0
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((n) => n.id)")
    assert len(ids) == len(set(ids))


def test_held_out_groups_and_numbers_can_be_opened(visit):
    page, contests = visit(), example()[2].held_out["contests"]
    page.select_option("#heldout-group", index=1)
    assert f"{contests[1]['contexts']} held-out contexts" in page.locator("#robin-table caption").inner_text()
    page.locator("#costs summary").click()
    assert len(rows(page, "frontier-numbers")) == len(example()[2].frontier)


def test_it_prints_light_and_without_controls(visit):
    page = visit(scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert page.locator(".bar").is_hidden()
    assert page.pdf(format="A4")[:4] == b"%PDF"


def test_intervals_of_every_look_are_called_so(visit, tmp_path):
    report, path = example()[2], tmp_path / "looks.html"
    path.write_text(render(replace(report, held_out={**report.held_out, "at_every_look": True})), encoding="utf-8")
    caption = "#robin-table caption"
    assert "hold together, and at every look;" in visit(page=path.as_uri()).locator(caption).inner_text()
    assert "every look" not in visit().locator(caption).inner_text()


def test_a_report_without_columns_costs_or_evaluation(visit, tmp_path):
    report = example()[2]
    path = tmp_path / "small.html"
    whole = report.groups[0]
    small = replace(report, columns=(), groups=(whole,), frontier=(), held_out=None, settings=(), notes=())
    path.write_text(render(small), encoding="utf-8")
    page = visit(page=path.as_uri())
    assert page.locator("#costs, #heldout, #column-label").evaluate_all("all => all.every((n) => n.hidden)")
    assert page.locator("nav a").all_inner_texts() == ["Leaderboard", "By group", "Payoffs", "Trust", "Method"]
    assert page.locator("#lotteries tbody tr").count() == 1


def test_two_agents_of_whom_nothing_is_known(visit, tmp_path):
    report = example()[2]
    view = replace(
        report.groups[0], order=(1, 0), winners=(1,), lottery=(0.0, 1.0), lower=(0.0, 0.0), upper=(1.0, 1.0),
        frequency=(0.0, 1.0), won=(None, None), rating=(None, None), rating_error=(None, None), votes=(0.0, 0.0),
        bridged=(0, 0),
        payoffs=Payoffs((1, 0), (0.0,), (-1.0,), (1.0,), (0,), (2,), (-1.0,), (1.0,)),
        preferences=Preferences((1, 0), (), (), 0), notes=(),
    )  # fmt: skip
    trust = report.trust | dict.fromkeys(("r2", "r2_within", "propensity", "smallest"))
    trust |= {"outcome": dict.fromkeys(("predicted", "observed", "error", "count"), ()), "thinnest": (), "warnings": ()}
    trust |= {"overlap": {"edges": (0.0,), "count": ()}, "effective": {"edges": (0.0, 0.0), "count": (1,)}}
    bare = replace(report, agents=("a", "b"), columns=(), groups=(view,), frontier=(), held_out=None, trust=trust)
    path = tmp_path / "bare.html"
    path.write_text(render(bare), encoding="utf-8")
    page = visit(page=path.as_uri())
    assert rows(page, "leaderboard-rows", 6) == ["–", "–"]
    assert page.locator("#effective").inner_text() == "1 pair never compared."
    assert page.locator("#graph svg").get_attribute("aria-label") == "No preference is certain."
    assert "Nothing stands out" in page.locator("#warnings").inner_text()


def test_the_score_of_the_tool_that_wrote_the_log_has_a_column_of_its_name(visit, tmp_path):
    data = example()[2]
    shown = [replace(view, tool_score=tuple(50.0 + a for a in range(len(AGENTS)))) for view in data.groups]
    path = tmp_path / "report.html"
    path.write_text(render(replace(data, groups=tuple(shown), tool=("arena-hard", 1))), encoding="utf-8")
    said = visit(page=path.as_uri()).locator("#leaderboard-rows").inner_text()
    assert "arena-hard" in said.lower()
    assert "50.0" in said
    assert "arena-hard" not in visit().locator("#leaderboard-rows").inner_text().lower()


class Part:
    """What a caller adds to a report: an audit, a plan."""

    title = "A part <b>with</b> a title"

    def lines(self):
        return ["<img src=x onerror=window.hacked=1> leaves", "A second sentence."]

    def listings(self):
        rows = (("b", "1,000"), ("a", "9"), ("c", "not known"))
        return [Listing("A table", ("name",), ("votes",), rows)]

    def charts(self):
        return [Bars("A chart", ("one", "two"), (2.0, -1.0), (1.5, -1.5), (2.5, -0.5), (True, False))]


@pytest.mark.parametrize("width", WIDTHS)
def test_parts_of_an_audit_are_sentences_tables_and_bars(visit, tmp_path, width):
    path = tmp_path / "audit.html"
    path.write_text(render(replace(example()[2], audit=(part_of(Part()),))), encoding="utf-8")
    page = visit(width=width, page=path.as_uri())
    assert page.locator("#audit h3").inner_text() == Part.title
    assert page.locator("#audit .notes li").all_inner_texts() == Part().lines()
    assert page.evaluate("window.hacked") is None
    page.locator("#audit-0-0").get_by_role("button", name="votes").click()
    assert rows(page, "audit-0-0") == ["b", "a", "c"]  # highest first, what is no number last
    assert page.locator("#audit .bars tr").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate(TOO_FAINT) == []


def test_without_an_audit_its_section_is_hidden(visit):
    page = visit()
    assert page.locator("#audit").is_hidden()
    assert page.locator("nav a[href='#audit']").count() == 0
