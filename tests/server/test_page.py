"""The page in a real Chromium: ask, watch, click, share, wrong input, nothing from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.server.conftest import HIDDEN, QUESTION, QUOTED, SCRIPT, WAIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.conftest import Served

pytestmark = pytest.mark.model


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    """A page on which every complaint of the browser, and every request elsewhere, fails a test."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    context.set_default_timeout(WAIT)
    opened = context.new_page()
    opened.expected = set()  # statuses that the page is meant to meet
    wrong: list[str] = []

    def said(message: Any) -> None:
        expected = any(f"status of {status}" in message.text for status in opened.expected)
        if message.type in ("error", "warning") and not expected:
            wrong.append(message.text)

    def asked(request: Any) -> None:
        if not request.url.startswith(served.url):
            wrong.append(request.url)

    opened.on("console", said)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("dialog", lambda dialog: wrong.append(dialog.message))
    opened.on("request", asked)
    yield opened
    context.close()
    assert wrong == []


def address(served: Served, question: str, **given: Any) -> str:
    return f"{served.url}/?{urlencode({'q': question, 'method': 'rank', **given})}"


def follow(page: Any, url: str) -> None:
    """Open a link from elsewhere, and ask what it has."""
    page.goto(url)
    page.click("#go")


def answered(page: Any) -> None:
    page.wait_for_selector("#result[aria-busy=false] article")


def test_ask_watch_and_look(page: Any, served: Served) -> None:
    page.goto(served.url)
    page.fill("#q", QUESTION)
    page.keyboard.press("Enter")
    answered(page)
    assert page.inner_text("article.first strong") == "Ada Birch"
    assert page.locator(".node.answer text").first.text_content() == "Ada Birch"
    assert "on call engineer" in page.locator(".link text").first.text_content()
    page.locator(".ids summary").first.click()
    assert "onCallEngineer" in page.inner_text(".texts")
    assert page.url.startswith(f"{served.url}/?q=who")
    page.locator(".node.topic").first.focus()
    page.keyboard.press("Enter")  # as with a mouse
    page.wait_for_selector(".neighbours li")
    assert page.locator("#neighbours .entity").all_inner_texts()
    page.get_by_text("Ask about it").click()
    assert "checkout-api" in page.inner_text("#chips")
    page.fill("#q", "who owns it")
    page.click("#go")
    page.wait_for_selector("article.first strong:has-text('Payments')")
    page.go_back()
    page.wait_for_selector("article.first strong:has-text('Ada Birch')")
    page.click("#history-open")
    assert QUESTION in page.inner_text("#history-list")


def test_a_plan_is_drawn_with_its_rows(page: Any, served: Served) -> None:
    follow(page, address(served, "Who owns the most?", method="query"))
    answered(page)
    query = served.post("/api/ask", {"question": "Who owns the most?", "method": "query"}).json[
        "query"
    ]
    assert query["sentence"] in page.inner_text("article.first")
    assert page.locator(".rows th").all_inner_texts() == query["labels"]
    assert len(query["tied"]) == 1  # two teams own two services each
    cells = page.locator(".rows tbody td:first-child").all_inner_texts()
    assert sorted(cells) == ["Catalogue", "Payments"]
    assert len(cells) == len(query["rows"]) + len(query["tied"])
    drawn = [one["relation"] for one in query["pattern"]]
    assert page.locator(".link title").all_text_contents() == drawn
    page.locator(".rows summary").first.click()
    fact = query["rows"][0]["facts"][-1]
    assert f"{fact['head']}  {fact['predicate']}  {fact['tail']}" in page.inner_text(".stored")


def test_ask_on(page: Any, served: Served) -> None:
    follow(page, address(served, QUESTION))
    answered(page)
    page.get_by_label("Follow-up question").fill("and who owns it?")
    page.keyboard.press("Enter")
    page.wait_for_selector("article.first strong:has-text('Payments')")
    assert '"it" was taken as "checkout-api"' in page.inner_text(".notes")
    page.get_by_label("Follow-up question").fill("who leads them?")
    page.get_by_role("button", name="Ask on").click()
    page.wait_for_selector("article.first strong:has-text('Cem Aydin')")
    assert page.input_value("#q") == "who leads Payments?"
    page.reload()  # the address stands alone
    page.wait_for_selector("article.first strong:has-text('Cem Aydin')")


@pytest.mark.parametrize("asked", [True, False])
def test_what_is_typed_while_the_page_loads_stays(page: Any, served: Served, asked: bool) -> None:
    held: list[Any] = []
    page.route("**/api/kgs", lambda route: held.append(route))
    page.goto(served.url)
    page.fill("#q", QUESTION)
    if asked:
        page.click("#go")
        answered(page)
    for route in held:
        route.continue_()
    page.unroute("**/api/kgs")
    page.wait_for_selector("#sub:has-text('facts')", state="attached")
    assert page.input_value("#q") == QUESTION
    if not asked:
        page.click("#go")
        answered(page)
    assert page.inner_text("article.first strong") == "Ada Birch"


def test_enter_under_another_question_asks_that_one(page: Any, served: Served) -> None:
    page.goto(served.url)
    page.wait_for_selector("#kg option", state="attached")
    held: list[Any] = []
    page.route("**/api/ask", lambda route: held.append(route))
    page.fill("#q", "who leads Payments")
    page.keyboard.press("Enter")
    page.wait_for_selector("#result[aria-busy=true]", state="attached")
    page.unroute("**/api/ask")
    page.fill("#q", QUESTION)
    page.keyboard.press("Enter")
    answered(page)
    assert page.inner_text("article.first strong") == "Ada Birch"


def test_a_link_from_elsewhere_asks_by_a_click(page: Any, served: Served) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address(served, QUESTION))
    page.wait_for_selector("#sub:has-text('facts')", state="attached")
    assert page.input_value("#q") == QUESTION
    page.wait_for_selector("#go:focus")
    assert not any(url.endswith("/api/ask") for url in asked)
    page.keyboard.press("Enter")
    answered(page)
    page.reload()  # asked before: it asks by itself
    answered(page)
    assert sum(url.endswith("/api/ask") for url in asked) == 2


def test_a_shared_address_asks_the_same(page: Any, served: Served) -> None:
    follow(page, address(served, "who owns it", entity="price-feed", k=3))
    answered(page)
    assert page.inner_text("article.first strong") == "Catalogue"
    assert page.input_value("#k") == "3"


def test_suggestions_while_typing(page: Any, served: Served) -> None:
    page.goto(served.url)
    page.click("#options summary")
    page.fill("#topic", "che")
    page.wait_for_selector("#suggestions li")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#topic", "aria-activedescendant") == "suggestions-0"
    page.keyboard.press("Enter")
    assert "checkout-api" in page.inner_text("#chips")


def test_names_are_text_wherever_they_stand(page: Any, served: Served) -> None:
    for question, name in ((f"who owns {SCRIPT}", SCRIPT), (f"what depends on {QUOTED}", QUOTED)):
        follow(page, address(served, question, entity=name))
        answered(page)
        assert page.locator("#result script, #result b b, svg script").count() == 0
        page.locator(".node.topic").first.click()
        page.wait_for_selector(".neighbours li")
        assert page.inner_text("#entity-name") == name
    page.expected |= {404, 422}
    follow(page, address(served, '"><img src=x onerror=alert(1)>', kg="<b>", k="<i>"))
    page.wait_for_selector("[role=alert]")
    assert page.locator("#result img").count() == 0


def test_characters_that_are_not_seen_are_shown_as_escapes(page: Any, served: Served) -> None:
    follow(page, address(served, "who owns it", entity=HIDDEN))
    answered(page)
    page.locator(".node.topic").first.click()
    page.wait_for_selector(".neighbours li")
    page.evaluate("document.getElementById('entity').close()")
    page.locator(".ids summary").first.click()
    seen = r"mail\x1b[2J\u202eyaler\u200b\u2066"
    assert page.inner_text("#entity-name") == seen
    assert seen in page.inner_text(".texts")
    assert page.locator(".node.topic title").first.text_content().startswith(seen)
    raw = "/[\\x1b\\u202e\\u200b\\u2066]/.test(one.textContent)"
    found = page.evaluate(f"[...document.querySelectorAll('*')].filter((one) => {raw}).length")
    assert found == 0


WRONG = [
    "where is Zaphod Qwxyz", "?", "…", "\u202e", "{}", "' OR 1=1 --", "${7*7}", "%00", "a" * 1990,
    "<!--", "]]>", "javascript:alert(1)", "\\", "🦊", "zaphod\nqwxyz", "//evil.example", "null",
    "undefined", "__proto__", "&lt;script&gt;",
]  # fmt: skip


def test_twenty_wrong_inputs_get_a_sentence_each(page: Any, served: Served) -> None:
    page.expected |= {400, 404, 422}
    page.goto(served.url)
    for text in WRONG:
        page.fill("#q", text)
        page.click("#go")
        page.wait_for_selector("#result[aria-busy=false] :is(article, [role=alert])")
        shown = page.inner_text("#result")
        assert len(shown) > 20, text
        assert "undefined" not in shown.replace(text, ""), text
        page.evaluate("document.getElementById('result').replaceChildren()")


def test_what_the_graph_lacks_is_said_calmly(page: Any, served: Served) -> None:
    follow(page, address(served, "what is the birthday of Cem Aydin"))
    answered(page)
    assert page.locator("article").count() >= 1
    assert page.locator("[role=alert]").count() == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1100)])
def test_everybody_can_use_it(browser: Any, served: Served, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(WAIT)
    for path in ("/", "/about", None):
        page.goto(address(served, QUESTION) if path is None else f"{served.url}{path}")
        if path is None:
            page.click("#go")
        if path is None:
            answered(page)
            page.locator(".ids summary").first.click()
            page.locator("#options summary").click()
        elif path == "/about":
            page.wait_for_selector("article.card")
        found = Axe().run(page).response["violations"]
        serious = [
            (one["id"], [node["html"] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, path
    context.close()
