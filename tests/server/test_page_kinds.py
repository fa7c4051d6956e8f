"""Ten kinds of answers on the page: read out as a sentence, at three widths, and what follows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

import kgqa
from kgqa.progress import Silent
from kgqa.questions.base import read_questions
from tests.server.conftest import WAIT, ready, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.server.conftest import Served

pytestmark = pytest.mark.model

LONG = "The Very Long Name of a Research Vessel That Was Never Shortened"
KINDS = {  # what is asked → the sentence that it is answered with
    "Who is the captain of Aurora?": "Captain of Aurora: Ines Holm.",
    "Which ships does Nordline operate?": "Operated by Nordline: 59 answers.",
    "When was Aurora built?": "Aurora, built in: 1990.",
    "Is Ines Holm the captain of Aurora?": "Ines Holm, captain of Aurora: Yes.",
    "Is Bo Lindt the captain of Aurora?": "Not in this graph (fairly sure). "
    'No path between "Bo Lindt" and "Aurora" says this.',
    "What is the birthday of Ines Holm?": "Not in this graph (unsure). "
    '"Ines Holm" has no fact that answers this.',
    "Who is the captain of Victoria?": "Captain of Victoria: Bo Lindt.",
    "Which ships of Nordline were built after 2015?": "Operated by Nordline, after 2015: "
    "8 answers.",
    "Which home port has the most ships?": "Bergen: 44.",
}
AXE = """() => {
  const light = (text) => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    if (!a) return null;
    const part = (one) => (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (node) => {
    for (let one = node.parentElement; one; one = one.parentElement) {
      const found = light(getComputedStyle(one).backgroundColor);
      if (found !== null) return found;
    }
    return 1;
  };
  const edged = "select, input, .question, .chip, .plan, .node[role=button] rect";
  return [...document.querySelectorAll(edged)].filter((one) => one.checkVisibility()).map((one) => {
    const style = getComputedStyle(one);
    const edge = light(one.tagName === "rect" ? style.stroke : style.borderTopColor);
    const [high, low] = [edge ?? -1, behind(one)].sort((a, b) => b - a);
    return [one.outerHTML.slice(0, 80), (high + 0.05) / (low + 0.05)];
  }).filter(([, ratio]) => ratio < 3);
}"""


def fleet() -> tuple[list[tuple[str, str, str]], dict[str, str]]:
    """Return the triples of a fleet, and its names: two ships are called Victoria."""
    ports = dict(enumerate(["Bergen", "Oslo", "Turku", "Gdansk", "Visby"]))
    people = ["Ines Holm", "Bo Lindt", "Cem Aydin", "Dora Nagy", "Ada Birch"]
    ships = ["Aurora", "Victoria", "Victoria", LONG, *(f"Nord {n}" for n in range(1, 57))]
    names = {"o1": "Nordline", "o2": "Baltic Star"}
    names |= {f"p{n}": name for n, name in ports.items()}
    names |= {f"c{n}": name for n, name in enumerate(people)}
    names |= {f"s{n}": name for n, name in enumerate(ships)}
    triples = [("o1", "headquarters", "p0"), ("o2", "headquarters", "p1")]
    triples += [(f"c{n}", "bornIn", f"p{n}") for n in range(4)]
    for n in range(len(ships)):
        triples.append((f"s{n}", "operatedBy", "o2" if n == 2 else "o1"))
        triples.append((f"s{n}", "homePort", f"p{n % 5 if n < 20 else 0}"))
        triples.append((f"s{n}", "builtIn", str(1990 + n % 30)))
        triples += [(f"s{n}", "captain", f"c{n % 5}")] if n < 10 else []
    return triples, names


@pytest.fixture(scope="module")
def fleet_served(tmp_path_factory: pytest.TempPathFactory, model_cache: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("fleet")
    for name, rows in zip(("triples", "names"), fleet(), strict=True):
        lines = rows.items() if isinstance(rows, dict) else rows
        (folder / name).write_text("".join("\t".join(row) + "\n" for row in lines))
    kgqa.ingest(
        "triples", folder / "triples", names=folder / "names", kg="fleet", home=folder / "home",
        progress=Silent(),
    ).close()  # fmt: skip
    with serving(folder / "home", model_cache) as server:
        ready(server)
        yield server


@pytest.fixture(params=[360, *(pytest.param(wide, marks=pytest.mark.long) for wide in (768, 1280))])
def page(browser: Any, fleet_served: Served, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page at a width; what its script complains about fails the test."""
    context = browser.new_context(
        viewport={"width": request.param, "height": 800},
        color_scheme="dark" if request.param == 768 else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(WAIT)
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.goto(fleet_served.url)
    yield opened
    context.close()
    assert wrong == []


def ask(page: Any, question: str) -> str:
    """Ask, and return what is read out."""
    page.fill("#q", question)
    page.keyboard.press("Enter")
    return answered(page)


def answered(page: Any) -> str:
    page.wait_for_selector("#said:not(:empty)", state="attached")
    page.wait_for_selector("#result[aria-busy=false] article")
    said: str = page.text_content("#said")
    return said


def is_sound(page: Any) -> None:
    """Check what is shown: nothing serious for axe, edges that are seen, no scrolling aside."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ] == []
    assert page.evaluate(AXE) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_ten_kinds_read_as_sentences(page: Any) -> None:
    page.wait_for_selector("#examples li")
    is_sound(page)
    for question, sentence in KINDS.items():
        assert ask(page, question) == sentence
        tree = page.locator("article").first.aria_snapshot()
        for part in sentence.rstrip(".").split(". "):  # the heading, and what stands below it
            assert part in tree.replace('\\"', '"')
        is_sound(page)
    assert ask(page, "Who is the captain of Aurora?")
    page.get_by_label("Follow-up question").fill("and who operates it?")
    page.keyboard.press("Enter")
    page.wait_for_selector("article.first strong:has-text('Nordline')")
    assert answered(page) == "Aurora, operated by: Nordline."
    is_sound(page)


one_width = pytest.mark.parametrize("page", [1280], indirect=True)


@one_width
def test_a_set_is_one_list_with_its_pattern(page: Any) -> None:
    ask(page, "Which ships does Nordline operate?")
    assert page.locator("article").count() == 1
    assert page.locator(".drawing .node text").all_text_contents() == ["Nordline", "59 answers"]
    assert page.locator(".set li").count() == 40
    page.get_by_role("button", name="Show all 59").click()
    assert page.locator(".set li").count() == 59
    assert page.locator(".texts").is_hidden()
    page.get_by_text("Facts and ids").click()
    assert "s0  operatedBy  o1" in page.inner_text(".stored")
    page.locator(".link text", has_text="^operatedBy").first.wait_for()  # drawn again


@one_width
def test_a_name_of_several_is_chosen_by_a_fact(page: Any) -> None:
    ask(page, "Who is the captain of Victoria?")
    chips = page.locator(".meaning")
    chips.first.wait_for()
    facts = chips.locator("small").all_inner_texts()
    assert len(set(facts)) == 2
    assert chips.first.get_attribute("aria-pressed") == "true"
    assert page.locator(".confidence").count() == 0  # sure of the answer, not of what was meant
    chips.last.click()
    page.wait_for_selector("article.first strong:has-text('Cem Aydin')")
    assert page.locator("#chips .chip").all_inner_texts() == ["Victoria ✕"]
    assert ask(page, "Who is the captain of Aurora?").endswith("Ines Holm.")  # no longer about it


@one_width
def test_neighbours_are_filtered_and_grow_the_drawing(page: Any) -> None:
    ask(page, "Who is the captain of Aurora?")
    page.locator(".node.answer").click()
    page.wait_for_selector("#neighbours h3")
    assert page.locator("#neighbours h3").all_inner_texts() == ["born in", "captain of"]
    page.keyboard.press("Escape")
    page.locator(".node.topic").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Draw Nordline").click()
    assert page.locator(".drawing .node").count() == 3
    page.locator(".drawing .node:has-text('Nordline')").click()
    page.get_by_label("Filter facts").fill("nord 7")
    page.wait_for_selector("#neighbours li:has-text('Nord 7')")
    assert page.inner_text("#neighbours h3") == "operated by Nordline"
    assert page.locator("#neighbours li").count() == 1
    page.get_by_role("button", name="Draw its facts").click()
    assert page.locator(".drawing .node").count() == 4


@one_width
def test_a_plan_that_was_meant_is_chosen_by_a_button(page: Any) -> None:
    ask(page, "Which home port is the best of the fleet?")
    chips = page.get_by_label("What is meant?").get_by_role("button")
    assert chips.count() == 2
    chips.nth(1).click()
    page.wait_for_selector(f"article p:has-text({json.dumps(chips.nth(1).inner_text())})")
    assert chips.nth(1).get_attribute("aria-pressed") == "true"


@one_width
def test_what_is_approved_is_kept_for_learning(
    page: Any, fleet_served: Served, tmp_path: Path
) -> None:
    ask(page, "Who is the captain of Aurora?")
    page.get_by_label("Follow-up question").fill("and who operates it?")
    page.keyboard.press("Enter")
    page.wait_for_selector("article.first strong:has-text('Nordline')")
    page.get_by_role("button", name="Right").click()
    page.wait_for_selector(".judged:has-text('Kept')")
    ask(page, "What is the birthday of Ines Holm?")
    page.get_by_role("button", name="Wrong").click()
    page.wait_for_selector(".judged:has-text('Kept as wrong')")
    wrong = fleet_served.get("/api/approved", {"right": "false"}).text.splitlines()
    assert [json.loads(one)["question"] for one in wrong] == ["What is the birthday of Ines Holm?"]
    page.get_by_label("The right answer").fill("berg")
    page.wait_for_selector("#right-ones li")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Keep").click()
    page.wait_for_selector(".judged:has-text('Kept, thank you')")
    assert not fleet_served.get("/api/approved", {"right": "false"}).text
    ask(page, "Which home port has the most ships?")
    page.get_by_text("The plan", exact=True).click()
    plan = page.input_value(".plan")
    page.fill(".plan", "Nothing such")
    page.get_by_role("button", name="Run this plan").click()
    page.wait_for_selector(".card form [role=status]:not(:empty)")
    page.fill(".plan", plan.replace("limit 1", "limit 2"))
    page.get_by_role("button", name="Run this plan").click()
    page.wait_for_selector(".rows tbody tr:nth-child(2)")
    with page.expect_download() as rows:
        page.get_by_role("button", name="All rows as CSV").click()
    lines = rows.value.path().read_text().splitlines()
    assert lines[1] == '"Bergen","44"'
    assert len(lines) >= 3
    page.get_by_role("button", name="Right").click()
    page.wait_for_selector(".judged:has-text('Kept')")
    with page.expect_download() as kept:
        page.get_by_role("button", name="All 3 kept questions").click()
    file = tmp_path / "approved.jsonl"
    file.write_bytes(kept.value.path().read_bytes())
    read = read_questions(file)
    found = {
        question.question: (question.topic_entities, question.answers)
        for question in read.questions
    }
    assert found["who operates Aurora?"] == (["s0"], ["o1"])
    assert found["What is the birthday of Ines Holm?"] == (["c0"], ["p0"])
    assert found["Which home port has the most ships?"][1][0] == "p0"
    assert "limit 2" in json.loads(file.read_text().splitlines()[-1])["plan"]
    with kgqa.open("fleet", home=fleet_served.home) as kg:
        assert kg.evaluate(file, method="rank").figures["questions"] == 3


@one_width
def test_stages_and_seconds_are_said_while_it_works(page: Any) -> None:
    page.route("**/api/ask", lambda route: None)  # an answer that does not come
    page.fill("#q", "Who is the captain of Aurora?")
    page.keyboard.press("Enter")
    page.wait_for_selector("#status[data-seconds]")
    assert page.inner_text("#status") == "Asking …"
    assert re.fullmatch(r" \d+ s", page.get_attribute("#status", "data-seconds"))
    page.get_by_role("button", name="Stop").click()  # before the route ends: then an answer comes
    page.unroute("**/api/ask")


@one_width
def test_examples_are_answered_with_a_path(page: Any) -> None:
    page.wait_for_selector("#examples li")
    texts = page.locator("#examples li").all_inner_texts()
    assert "What is the captain of Nord 2?" in texts
    page.locator("#examples button").first.click()
    assert answered(page).endswith(": Bergen.")
    assert page.locator("#examples").is_hidden()


@one_width
def test_no_cell_of_a_download_is_a_formula(page: Any) -> None:
    shown = page.evaluate(
        "import('/common.js').then((page) => "
        "['=1+2', '@x', '+cmd', '-cmd', '-4', '+4', '4', 'a \"b\"', ''].map(page.csvCell))"
    )
    plain = ['"-4"', '"+4"', '"4"', '"a ""b"""', '""']
    assert shown == ['"\'=1+2"', '"\'@x"', '"\'+cmd"', '"\'-cmd"', *plain]
