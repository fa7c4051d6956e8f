// An answer: one sentence, its drawing, what it rests on, and what can be done with it.
import { call, csvCell, el, json, listed, number, percent, visible } from "/common.js";
import { combobox } from "/entity.js";
import { VERB, draw, readable } from "/draw.js";

const DRAWN = 6; // paths that are drawn one by one
const SHOWN = 40; // answers of a list that are shown at first
const ROWS = 100; // rows of a plan that are shown
const MEANINGS = 6; // of a name

// ── in words ───────────────────────────────────────────────────────────────────────────────

/** What leads to the last entity of a path: "Captain of Aurora", "Operated by Nordline", "Aurora, built in". */
function leading(path, whether) {
  return path.edges.reduce((said, edge, place) => {
    const words = readable(edge.relation), verb = VERB.test(words);
    if (!place && verb && edge.inverse) return `${capital(words)} ${said}`;
    if (!place && !verb && !edge.inverse && !whether && !words.includes("·")) return `${capital(words)} of ${said}`;
    return `${said}, ${words}${edge.inverse && !verb ? " of" : ""}`;
  }, path.edges[0].head.name);
}

const cellText = (cell) => cell === null ? "–" : Array.isArray(cell) ? cell.map(cellText).join(", ") : String(cell.name ?? cell);

/** The answers in groups of one pattern (where paths start, and their relations), each with a path. */
function grouped(found) {
  const pattern = (path) => [path.edges[0].head.id, ...path.edges.map((edge) => `${edge.inverse} ${edge.relation}`)].join("\n");
  const groups = new Map();
  for (const one of found.answers) {
    one.behind = one.paths.map((place) => found.paths[place])
      .concat(found.expanded.filter((path) => path.edges.at(-1)?.tail.id === one.id))
      .filter((path) => path.edges.length);
    if (one.id === null) one.behind.sort((a, b) => a.edges.length - b.edges.length);
    const key = one.behind.map(pattern).find((each) => groups.has(each)) ?? (one.behind[0] ? pattern(one.behind[0]) : "");
    const path = one.behind.find((each) => pattern(each) === key);
    one.behind.sort((a, b) => (b === path) - (a === path) || a.edges.length - b.edges.length);
    if (!groups.has(key)) groups.set(key, { path, answers: [] });
    groups.get(key).answers.push(one);
  }
  return [...groups.values()];
}

/** The sentence of an answer: what stands before what is said, and the names in it if they are few. */
function sentence(found, group) {
  if (found.query) {
    const rows = [...found.query.rows, ...found.query.tied].map((row) => row.values);
    const few = rows.length <= 3 && rows.every((row) => row[0]?.id);
    return { before: "", names: few ? rows.map((row) => row[0]) : [],
      said: few ? "" : rows.length === 1 ? rows[0].map(cellText).join(", ") : `${number(rows.length)} rows`,
      after: few && rows[0].length > 1 ? `: ${rows[0].slice(1).map(cellText).join(", ")}` : "" };
  }
  const few = group.answers.length <= 3;
  const whether = group.answers[0].id === null && group.answers[0].grounded;
  const asked = [...new Set(group.answers.flatMap((one) => (one.conditions ?? []).map((each) => each.asked)))];
  const path = group.path && [leading(group.path, whether), ...(whether ? [group.path.edges.at(-1).tail.name] : asked)].join(whether ? " " : ", ");
  return { before: path ? `${path}: ` : "", names: few && !whether ? group.answers : [],
    said: whether ? capital(group.answers[0].name) : few ? "" : `${number(group.answers.length)} answers`, after: "" };
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** An answer in one sentence, as it is read out. */
export function spoken(found) {
  if (!found.answers.length) return refusal(found).join(" ");
  return `${plain(sentence(found, found.query ? null : grouped(found)[0]))}.`;
}

const plain = ({ before, names, said, after }) => `${before}${names.length ? listed(names.map((one) => one.name)) : said}${after}`;

/** How sure a refusal is: a number beside it would be read as that of an answer. */
const sureness = (value) => value === null ? "" : value >= 0.9 ? " (fairly sure)" : value >= 0.7 ? " (probably)" : " (unsure)";

const isRefusal = (note) => /^(Not in this graph|No:)/.test(note);

/** What the graph does not know, as a heading and the rest. */
function refusal(found) {
  const why = found.notes.find(isRefusal);
  if (!why) return ["No answer.", "The facts found are not evidence enough."];
  const [said] = why.split(/[:.]/);
  return [`${said}${sureness(found.confidence)}.`, capital(why.slice(said.length).replace(/^[:.]?\s*/, ""))];
}

// ── what is shown ──────────────────────────────────────────────────────────────────────────

/** A drawing that can grow; `page.look` is called with the entity that is chosen, and with it. */
function drawing(paths, ids, page, label = "Drawn paths") {
  const holder = el("div", { class: "drawing", tabIndex: 0, role: "region", "aria-label": label });
  const [opened, shown] = [new Set(), [...paths]];
  holder.drawNow = () => draw(holder, shown, ids, page && ((entity) => page.look(entity, holder)), opened,
    holder.closest("article")?.classList.contains("named"));
  holder.grow = (edges) => {
    const known = new Set(shown.flatMap((path) => path.edges.map(hop)));
    shown.push(...edges.filter((edge) => !known.has(hop(edge))).map((edge) => ({ edges: [edge], asked: true })));
    holder.drawNow();
  };
  return holder;
}

const hop = (edge) => [edge.head.id, edge.tail.id].sort().concat(edge.relation.replaceAll("^", "")).join("\n");

/** A path as text, its stored facts below it; a condition says what asked for it. */
function asText(path) {
  const line = el("span", { class: "path" }, path.asked ? el("span", { class: "badge", textContent: path.asked }) : null,
    el("b", { textContent: path.edges[0].head.name }));
  for (const edge of path.edges) {
    line.append(el("i", { textContent: edge.relation }), el("b", { textContent: edge.tail.name }));
  }
  const facts = path.edges.flatMap((edge) => edge.facts).map((fact) =>
    el("li", {}, el("code", { textContent: `${fact.head}  ${fact.predicate}  ${fact.tail}` })));
  return el("li", {}, line, el("ul", { class: "stored" }, ...facts));
}

/** The paths as text with their ids; while they are shown, the drawing has the relations' ids, too. */
function withIds(paths, label = "Facts and ids") {
  const texts = el("ol", { class: "texts" }, ...paths.slice(0, 12).map(asText));
  const holder = el("details", { class: "ids" }, el("summary", { textContent: label }), texts);
  if (paths.length > 12) {
    const all = el("button", { type: "button", class: "quiet", textContent: `All ${number(paths.length)} paths`,
      onclick: () => { texts.append(...paths.slice(12).map(asText)); all.remove(); } });
    holder.append(all);
  }
  holder.addEventListener("toggle", () => {
    const card = holder.closest("article");
    card.classList.toggle("named", holder.open);
    card.querySelectorAll(".drawing").forEach((each) => each.drawNow());
  });
  return holder;
}

export function preview(paths) {
  return el("div", { class: "card preview" },
    el("h2", { textContent: "Paths found so far" }), drawing(paths.slice(0, DRAWN), new Set()));
}

/** All that is shown of an answer. `page`: `ask`, `look`, `choose` (topics, and ask), `link`; `followUp`: where to ask on. */
export function result(found, given, page, followUp) {
  const topic = found.topic_entities;
  const parts = [el("h2", { class: "hidden", textContent: found.question })];
  const unsure = found.notes.some(isMeaning);
  if (unsure) parts.push(meanings(found, given, page));
  if (!found.answers.length) parts.push(nothing(found, page));
  else if (found.query) parts.push(planned(found.query, found, given, page));
  else parts.push(...grouped(found).map((group, place) => groupCard(found, group, place === 0, unsure, page)));
  parts[unsure ? 2 : 1].append(judged(found, given));
  if (found.readings?.length) parts.push(readings(found, given, page));
  parts.push(followUp);
  const notes = found.notes.filter((note) => found.answers.length && !isMeaning(note)
    && !(found.query && /^(Read as: |count |sum |average |least |most )/.test(note)));
  if (notes.length) parts.push(el("ul", { class: "notes" }, ...notes.map((note) => el("li", { textContent: note }))));
  if (found.others.length) {
    parts.push(el("details", { class: "others" },
      el("summary", { textContent: `Less likely: ${number(found.others.length)} ${found.others.length === 1 ? "entity" : "entities"}` }),
      el("p", {}, ...found.others.slice(0, 30).flatMap((one, place) => [place ? ", " : "", entityLink(one, page)]))));
  }
  parts.push(el("p", { class: "about made" }, ...(topic.length ? ["About ", ...topic.flatMap((one, place) => [place ? ", " : "", entityLink(one, page)]), " · "] : []),
    `${found.timings.total.toFixed(2)} s · ${found.method}`), actions(found, page.link(given)));
  return el("div", {}, ...parts);
}

function heading(words, page) {
  const { before, names, said, after } = words;
  const shown = names.flatMap((one, place) => [place ? (place === names.length - 1 ? " and " : ", ") : "", one.id ? entityLink(one, page) : one.name]);
  return el("h3", { "aria-label": visible(plain(words)) }, before ? el("span", { class: "before", textContent: before }) : null,
    el("strong", {}, ...(names.length ? shown : [said]), after));
}

function confidence(found) {
  if (found.confidence === null) return null;
  return el("span", { class: found.confidence < 0.5 ? "badge" : "confidence", textContent: `${percent(found.confidence)} confident` });
}

/** The answers of one pattern: drawn path by path if they are few, else the pattern and a list. */
function groupCard(found, group, first, unsure, page) {
  const ids = new Set(found.answers.map((one) => one.id));
  const card = el("article", { class: first ? "card first" : "card" },
    el("div", { class: "name" }, heading(sentence(found, group), page),
      group.answers.every((one) => one.grounded) ? null : el("span", { class: "badge", textContent: "in no path" }),
      first && !unsure ? confidence(found) : null));
  const asked = group.answers.flatMap((one) => (one.conditions ?? []).filter((each) => each.edges.length));
  const behind = [...new Set(group.answers.flatMap((one) => one.behind))].sort((a, b) => a.edges.length - b.edges.length);
  const drawn = behind.filter((path) => group.answers[0].id !== null || path.edges.length === behind[0].edges.length).slice(0, DRAWN);
  if (!behind.length) card.append(el("p", { class: "about", textContent: "No path of the graph ends here." }));
  else if (group.answers.length > DRAWN) card.append(drawing(pattern(group, asked), ids.add("all"), page, "The pattern of all answers"), list(group, page));
  else card.append(drawing([...drawn, ...asked], ids, page));
  if (behind.length) card.append(withIds([...behind, ...asked]));
  return card;
}

/** The pattern of a group as paths: its last entity stands for all answers. */
function pattern({ path, answers }, asked) {
  const all = { id: "all", name: `${number(answers.length)} answers`, all: true };
  const kinds = new Map(asked.map((each) => [`${each.asked} ${each.edges[0].relation}`, each]));
  return [{ edges: path.edges.with(-1, { ...path.edges.at(-1), tail: all, facts: [] }) },
    ...[...kinds.values()].map((each) => ({ asked: each.asked, edges: each.edges.slice(0, 1).map((edge) =>
      ({ ...edge, head: all, tail: { id: `asked ${each.asked}`, name: each.asked, all: true }, facts: [] })) }))];
}

function list({ answers }, page) {
  const line = (one) => el("li", {}, one.id ? entityLink(one, page) : one.name,
    ...(one.conditions ?? []).filter((each) => each.edges.length).map((each) =>
      el("small", { textContent: ` ${each.edges.at(-1).tail.name}`, title: each.asked })));
  const shown = el("ul", { class: "set" }, ...answers.slice(0, SHOWN).map(line));
  if (answers.length <= SHOWN) return shown;
  const all = el("button", { type: "button", class: "quiet", textContent: `Show all ${number(answers.length)}`, onclick: () => {
    shown.append(...answers.slice(SHOWN).map(line));
    shown.children[SHOWN].querySelector("button")?.focus();
    all.remove();
  } });
  return el("div", {}, shown, all);
}

/** What the graph does not know is an answer, too. */
function nothing(found, page) {
  const [said, why] = refusal(found);
  const card = el("article", { class: "card calm" }, el("h3", {}, el("strong", { textContent: said })), el("p", { textContent: why }),
    ...found.notes.filter((note) => !isRefusal(note) && !isMeaning(note)).map((note) => el("p", { textContent: note })));
  const paths = found.paths.filter((path) => path.edges.length);
  if (paths.length) {
    const looked = el("details", {}, el("summary", { textContent: "What was looked at" }), drawing(paths.slice(0, DRAWN), new Set(), page));
    looked.addEventListener("toggle", () => looked.lastChild.drawNow());
    card.append(looked);
  }
  return card;
}

export function failure(error, given, page) {
  const start = error.code === 422 || error.code === 404;
  const acts = el("div", { class: "actions" },
    start ? el("button", { type: "button", class: "quiet", textContent: "Name the topic entity", onclick: page.nameTopic }) : null,
    el("button", { type: "button", class: "quiet", textContent: "Ask again", onclick: () => page.ask() }));
  return el("div", {}, el("h2", { class: "hidden", textContent: given.q }), el("article", { class: "card calm", role: "alert" },
    el("h3", { textContent: start ? "This question found no start" : "That did not work" }),
    el("p", { textContent: error.message ?? String(error) }),
    error.hint ? el("p", { class: "about", textContent: error.hint }) : null, acts));
}

function entityLink(entity, page) {
  return el("button", { type: "button", class: "entity", textContent: entity.name, title: entity.id ?? "",
    onclick: (event) => page.look(entity, event.target.closest("article")?.querySelector(".drawing")) });
}

// ── a name with several meanings ───────────────────────────────────────────────────────────

const isMeaning = (note) => note.startsWith("Interpreted ");

/** Chips, one for each entity that a name may mean, with a fact that tells it from the others. */
function meanings(found, given, page) {
  const box = el("section", { class: "which", "aria-label": "Which one is meant?", hidden: true });
  const kg = given.kg ? { kg: given.kg } : {};
  const about = async (one) => {
    const query = new URLSearchParams({ ...kg, entity: one.id, hops: 1, direction: "both", limit: 40 });
    const near = await json(`/api/paths?${query}`).catch(() => ({ paths: [] }));
    return near.paths.map(({ edges: [edge] }) => [edge.relation, `${readable(edge.relation)}${edge.inverse ? " of" : ""} ${edge.tail.name}`]);
  };
  const fill = async () => {
    for (const text of given.entities.length ? given.entities.map((one) => one.name) : [given.q]) {
      const { candidates } = await json("/api/link", { ...kg, question: text, limit: 30 });
      for (const taken of found.topic_entities) {
        const mention = candidates.find((one) => one.id === taken.id)?.mention;
        const same = candidates.filter((one) => one.mention === mention);
        if (mention === undefined || same.length < 2) continue;
        const shown = same.slice(0, MEANINGS);
        const facts = await Promise.all(shown.map(about));
        const chips = shown.map((one, place) => {
          const shared = (key, value) => facts.filter((each) => each.some((fact) => fact[key] === value)).length;
          const told = facts[place].filter(([, words]) => shared(1, words) === 1).sort((a, b) => shared(0, b[0]) - shared(0, a[0]));
          return el("button", { type: "button", class: "chip meaning", "aria-pressed": String(one.id === taken.id),
            onclick: () => page.choose(found.topic_entities.map((each) => each.id === taken.id ? one : each)) },
          el("b", { textContent: one.name }), el("small", { textContent: told[0]?.[1] ?? one.id }));
        });
        box.append(el("p", { textContent: `Which ${mention}?` }), el("div", { class: "chips" }, ...chips),
          same.length > shown.length ? el("p", { class: "about", textContent: `and ${number(same.length - shown.length)} more` }) : "");
        box.hidden = false;
      }
    }
  };
  fill().catch(() => {}).finally(() => {
    if (box.hidden) box.replaceWith(el("ul", { class: "notes" }, ...found.notes.filter(isMeaning).map((note) => el("li", { textContent: note }))));
  });
  return box;
}

// ── plans ──────────────────────────────────────────────────────────────────────────────────

/** What a plan gave: its sentence, its pattern, its rows with what they rest on, and the plan to edit. */
function planned(query, found, given, page) {
  const rows = [...query.rows, ...query.tied];
  const card = el("article", { class: "card first" },
    el("div", { class: "name" }, heading(sentence({ query }), page), confidence(found)),
    el("p", { textContent: query.sentence }));
  if (query.pattern.length) {
    const end = (id, name) => ({ id, name, all: true });
    const edges = query.pattern.map((each) => ({ ...each, head: end(each.head, each.words[0]), tail: end(each.tail, each.words[1]), facts: [] }));
    card.append(drawing([{ edges, asked: true }], new Set(query.columns), null, "The plan's pattern"));
  }
  const behind = (row) => [...row.counted.map((one) => `${one.aggregate}: ${one.members.map(cellText).join(", ")}${one.size > one.members.length ? ` … (${number(one.size)})` : ""}`),
    ...row.facts.map((fact) => `${fact.head}  ${fact.predicate}  ${fact.tail}`),
    ...row.facts_in_all > row.facts.length ? [`… ${number(row.facts_in_all)} facts in all`] : []];
  const lines = rows.slice(0, ROWS).map((row) => el("tr", {},
    ...row.values.map((cell) => el("td", {}, cell?.id ? entityLink(cell, page) : cellText(cell))),
    el("td", {}, behind(row).length ? el("details", {}, el("summary", { textContent: "why" }),
      el("ul", { class: "stored" }, ...behind(row).map((one) => el("li", {}, el("code", { textContent: one }))))) : "")));
  const next = query.runners_up.map((values) => values.map(cellText).join(", "));
  card.append(el("div", { class: "rows", tabIndex: 0, role: "region", "aria-label": "Rows" }, el("table", {},
    el("thead", {}, el("tr", {}, ...query.labels.map((name) => el("th", { scope: "col", textContent: name })), el("td"))),
    el("tbody", {}, ...lines))),
  next.length ? el("p", { class: "about", textContent: `Next: ${next.join("; ")}` }) : "",
  el("div", { class: "actions" },
    rows.length > lines.length ? el("span", { class: "about", textContent: `${number(rows.length - lines.length)} more rows in the CSV` }) : null,
    el("button", { type: "button", class: "quiet", textContent: "All rows as CSV", onclick: () => csv(query.plan, given) }),
    query.cypher ? copier("Copy the plan's Cypher", query.cypher) : null,
    query.sparql ? copier("Copy the plan's SPARQL", query.sparql) : null),
  edited(query, found, given, page));
  return card;
}

/** Save a file that the page made. */
function save(name, kind, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function csv(plan, given) {
  const { columns, rows, tied } = await json("/api/query", { plan, kg: given.kg || undefined, rows: 10000, facts: 0 });
  const lines = [columns, ...[...rows, ...tied].map((row) => row.values)].map((row) => row.map((value) => csvCell(value === null ? "" : cellText(value))).join(","));
  save("rows.csv", "text/csv", `${lines.join("\r\n")}\r\n`);
}

/** Run a plan; what it gives takes the place of a card. */
async function ran(plan, place, found, given, page) {
  const own = await json("/api/query", { plan, kg: given.kg || undefined });
  const answers = own.rows.map(({ values: [cell] }) => ({ id: cell?.id ?? null, name: cellText(cell), score: 1, paths: [] }));
  const changed = { ...found, query: own, answers, confidence: null };
  const card = planned(own, changed, given, page);
  card.append(judged(changed, given));
  place.replaceWith(card);
  for (const each of card.querySelectorAll(".drawing")) each.drawNow();
  return card;
}

/** The plans that a question may mean, to choose from where none was sure. */
function readings(found, given, page) {
  const said = el("p", { class: "about", role: "status" });
  const buttons = found.readings.map((one) => el("button", { type: "button", class: "chip meaning", textContent: one.text,
    "aria-pressed": String(one.plan === found.query?.plan), onclick: async ({ currentTarget }) => {
      try {
        await ran(one.plan, box.parentElement.querySelector("article"), found, given, page);
        for (const each of buttons) each.setAttribute("aria-pressed", String(each === currentTarget));
      } catch (error) {
        said.textContent = visible([error.message, error.hint].filter(Boolean).join(" "));
      }
    } }));
  const box = el("section", { class: "which", "aria-label": "What is meant?" },
    el("p", { textContent: "What is meant?" }), el("div", { class: "chips" }, ...buttons), said);
  return box;
}

/** The plan as text that can be changed and run; what it gives takes the place of the answer. */
function edited(query, found, given, page) {
  const text = el("textarea", { class: "plan", rows: 2, maxLength: 4000, spellcheck: false, "aria-label": "The plan", value: query.plan });
  const said = el("p", { class: "about", role: "status" });
  const form = el("form", {}, text, said, el("div", { class: "actions" },
    el("button", { type: "submit", class: "quiet", textContent: "Run this plan" }), copier("Copy it", query.plan)));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const card = await ran(text.value, form.closest("article"), found, given, page);
      card.querySelector(".plan").closest("details").open = true;
      card.querySelector(".plan").focus();
    } catch (error) {
      said.textContent = visible([error.message, error.hint].filter(Boolean).join(" "));
    }
  });
  return el("details", {}, el("summary", { textContent: "The plan" }), form);
}

// ── right or wrong ─────────────────────────────────────────────────────────────────────────

/** Right or wrong by a click; what a person says is kept with the question as it was resolved. */
function judged(found, given) {
  const box = el("div", { class: "judged", role: "group", "aria-label": "Is this right?" });
  const told = (answers, right) => json("/api/approved", { question: found.question, kg: given.kg || undefined, answers, right,
    topic_entities: found.topic_entities.map((one) => one.id), plan: found.query?.plan });
  const keep = async (answers) => {
    try {
      const { kept } = await told(answers, true);
      const file = async () => {
        const query = given.kg ? `?${new URLSearchParams({ kg: given.kg })}` : "";
        save("approved.jsonl", "application/jsonl", await (await call(`/api/approved${query}`)).text());
      };
      box.replaceChildren(el("span", { role: "status", textContent: "Kept, thank you." }),
        el("button", { type: "button", class: "quiet", textContent: `All ${number(kept)} kept questions`, onclick: file }));
    } catch (error) {
      failed(error);
    }
  };
  const failed = (error) => box.append(el("span", { role: "alert", textContent: error.message }));
  const button = (text, act) => el("button", { type: "button", class: "quiet", textContent: text, onclick: act });
  const wrong = async () => {
    try {
      await told(answers, false);
    } catch (error) {
      failed(error);
      return;
    }
    const chosen = [];
    const field = el("input", { "aria-label": "The right answer", placeholder: "The right answer, by name" });
    const shown = el("ul", { role: "listbox", id: "right-ones", class: "suggestions", "aria-label": "Entities", hidden: true });
    const names = el("span");
    const add = (one) => { chosen.push(one); names.textContent = visible(listed(chosen.map((each) => each.name))); };
    combobox(field, shown, add, () => given.kg);
    box.replaceChildren(el("span", { role: "status", textContent: "Kept as wrong. What is right?" }), names, el("span", { class: "combo" }, field, shown),
      button("Keep", () => { if (field.value.trim()) add({ id: field.value.trim(), name: field.value.trim() }); if (chosen.length) keep(chosen.map((one) => one.id)); }),
      button("It is not in this graph", () => keep([])));
    field.focus();
  };
  const answers = found.answers.map((one) => one.id ?? one.name);
  box.append(el("span", { textContent: "Is this right?" }), button("Right", () => keep(answers)), button("Wrong", wrong));
  return box;
}

// ── what can be taken away ─────────────────────────────────────────────────────────────────

function actions(found, link) {
  const acts = [copier("Copy link", link), copier("Copy JSON", JSON.stringify(found, (key, value) => key === "behind" ? undefined : value, 2))];
  const facts = [...found.paths, ...found.expanded].flatMap((path) => path.edges.flatMap((edge) => edge.facts));
  if (facts.length) acts.push(copier("Copy Cypher", cypher(found, facts)));
  if (/^https?:/.test(found.browser_url ?? "")) {
    acts.push(el("a", { href: found.browser_url, target: "_blank", rel: "noreferrer", textContent: "Neo4j Browser" }));
  }
  return el("div", { class: "actions" }, ...acts);
}

function copier(label, text) {
  const node = el("button", { type: "button", class: "quiet", textContent: label, onclick: async () => {
    await navigator.clipboard.writeText(text).then(() => { node.textContent = "Copied"; },
      () => { node.textContent = "Not allowed here"; });
    setTimeout(() => { node.textContent = label; }, 1500);
  } });
  return node;
}

/** The Cypher that draws the facts: that of the store if it is Neo4j, else by the id alone. */
function cypher(found, facts) {
  const own = found.browser_url && new URL(found.browser_url).searchParams.get("arg");
  if (own) return own;
  const quoted = (text) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'").replaceAll("\n", "\\n")}'`;
  const rows = new Set(facts.map((fact) => `  [${[fact.head, fact.predicate, fact.tail].map(quoted).join(", ")}]`));
  return `UNWIND [\n${[...rows].join(",\n")}\n] AS edge\n`
    + "MATCH path = (:Entity {id: edge[0]})-[r]->(:Entity {id: edge[2]})\n"
    + "WHERE type(r) = edge[1]\nRETURN path\n";
}
