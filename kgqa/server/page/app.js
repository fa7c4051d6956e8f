// The page: ask, watch, and look at the paths behind each answer.
import { Told, byId, call, el, json, number, percent, visible } from "/common.js";
import { draw, readable } from "/draw.js";

const DRAWN = 6; // paths of an answer that are drawn at first
const SHOWN = 8; // answers that are shown at first
const ROWS = 100; // rows of a plan that are shown
const KEPT = 50; // questions of the history
const TURNS = 3; // earlier questions that a follow-up is sent with
const HISTORY = "kgqa-history";

let running = null; // what stops the question that is being asked
let current = ""; // the address of that question
let topics = []; // chosen entities: {id, name}
let before = []; // answered questions that a follow-up may leave things to
let suggested = [], marked = -1, typing = null;

// ── asking ─────────────────────────────────────────────────────────────────────────────────

/** The question with its options as the form has them. */
function form() {
  const given = { q: byId("q").value.trim(), kg: byId("kg").value, method: byId("method").value };
  for (const name of ["k", "hops"]) if (byId(name).value) given[name] = Number(byId(name).value);
  return { ...given, entities: topics };
}

/** The address that asks the same again: whoever follows it sees the same. */
function address(given) {
  const query = new URLSearchParams({ q: given.q });
  if (given.kg && byId("kg").options.length > 1) query.set("kg", given.kg);
  if (given.method && given.method !== "auto") query.set("method", given.method);
  for (const name of ["k", "hops"]) if (given[name]) query.set(name, given[name]);
  for (const one of given.entities) query.append("entity", one.id);
  return `/?${query}`;
}

/** Fill the form from the page's address; returns whether there is a question to ask. */
function fromAddress() {
  const query = new URLSearchParams(location.search);
  byId("q").value = query.get("q") ?? byId("q").value;
  for (const name of ["k", "hops"]) byId(name).value = /^\d+$/.exec(query.get(name) ?? "")?.[0] ?? "";
  topics = query.getAll("entity").map((id) => ({ id, name: id }));
  choices();
  fit();
  return (query.get("q") ?? "").trim() !== "";
}

/** Choose the graph and the method that the page's address names. */
function choices() {
  const query = new URLSearchParams(location.search);
  for (const [name, otherwise] of [["kg", null], ["method", "auto"]]) {
    const value = query.get(name) ?? otherwise;
    if (value && [...byId(name).options].some((one) => one.value === value)) byId(name).value = value;
  }
  chips();
}

/** Ask what the form has, or a follow-up to what was asked before. */
async function ask({ remember = true, followUp = "" } = {}) {
  const given = followUp ? { ...form(), q: followUp, entities: [] } : form();
  if (!given.q) return;
  if (!followUp) before = [];
  running?.abort();
  const stop = (running = new AbortController());
  current = address(given);
  if (remember && !followUp && location.pathname + location.search !== current) history.pushState(null, "", current);
  document.title = visible(`${given.q} · kgqa`);
  document.body.classList.add("asked");
  byId("result").replaceChildren();
  byId("result").setAttribute("aria-busy", "true");
  byId("go").textContent = "Stop";
  say("Asking …", true);
  const body = { question: given.q, kg: given.kg || undefined, method: given.method || undefined,
    k: given.k, hops: given.hops, entities: given.entities.map((one) => one.id),
    after: before.length ? before : undefined };
  try {
    const response = await call("/api/ask", body, stop.signal, "text/event-stream");
    await watch(response, given);
    keep(given);
  } catch (error) {
    if (error.name !== "AbortError") show(failure(error, given));
    if (running === stop) say("");
  } finally {
    if (running === stop) {
      running = null;
      byId("result").setAttribute("aria-busy", "false");
      byId("go").textContent = "Ask";
    }
  }
}

/** Show what happens to the question as the server sends it. */
async function watch(response, given) {
  const seen = new Map();
  for await (const [event, data] of events(response)) {
    if (event === "queued" && data.ahead) say(`Waiting: ${data.ahead} ahead …`, true);
    else if (event === "loading") say(`${data.text} …`, true);
    else if (event === "linked") {
      const names = data.topic_entities.map((one) => one.name).join(", ");
      say(`About ${names}. Searching …`, true);
    } else if (event === "paths") {
      for (const path of data.paths) if (path.edges.length) seen.set(path.text, path);
      say(`${number(seen.size)} ${seen.size === 1 ? "path" : "paths"} found so far …`, true);
      if (seen.size) show(preview([...seen.values()]));
    } else if (event === "answer") {
      say("");
      if (before.length) asItWasRead(data, given);
      before = [...before, turn(data)].slice(-TURNS);
      show(result(data, given), following());
      return;
    } else if (event === "error") {
      throw new Told(data.error.message, data.error.hint, data.error.code);
    }
  }
  throw new Told("The answer ended before it was whole.", "Ask again.");
}

/** What a follow-up may leave to this answer. */
function turn(found) {
  const ids = (list, most) => list.map((one) => one.id).filter((id) => id !== null).slice(0, most);
  return { question: found.question, topic_entities: ids(found.topic_entities, 16), answers: ids(found.answers, 1000) };
}

/** Have form and address ask what a follow-up was read as, so that it stands alone. */
function asItWasRead(found, given) {
  given.q = byId("q").value = found.question;
  given.entities = topics = found.topic_entities.map(({ id, name }) => ({ id, name }));
  chips();
  fit();
  current = address(given);
  history.pushState(null, "", current);
}

function following() {
  const field = el("input", { type: "text", maxLength: 2000, "aria-label": "Follow-up question",
    placeholder: "Ask on: and where …? which of them …?" });
  const box = el("form", { class: "follow", autocomplete: "off" }, field,
    el("button", { type: "submit", class: "quiet", textContent: "Ask on" }));
  box.addEventListener("submit", (event) => {
    event.preventDefault();
    if (field.value.trim()) ask({ followUp: field.value.trim() });
  });
  return box;
}

/** The server-sent events of a response. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = /^event: (.*)$/m.exec(block), data = /^data: (.*)$/m.exec(block);
      if (event && data) yield [event[1], JSON.parse(data[1])];
    }
  }
}

function say(text, busy = false) {
  byId("status").textContent = visible(text);
  byId("status").hidden = !text;
  byId("status").classList.toggle("busy", busy);
}

function show(...nodes) {
  byId("result").replaceChildren(...nodes);
  for (const one of byId("result").querySelectorAll(".drawing")) one.drawNow();
}

// ── what is shown ──────────────────────────────────────────────────────────────────────────

function drawing(paths, ids) {
  const holder = el("div", { class: "drawing", tabIndex: 0, role: "region", "aria-label": "Drawn paths" });
  const opened = new Set();
  holder.drawNow = () => draw(holder, paths, ids, look, opened);
  return holder;
}

/** A path as text, its stored facts below it; a condition says what asked for it. */
function asText(path) {
  const line = el("span", { class: "path" }, path.asked ? el("span", { class: "badge", textContent: path.asked }) : null,
    el("b", { textContent: path.edges[0].head.name }));
  for (const edge of path.edges) {
    line.append(el("i", { textContent: edge.relation, title: readable(edge.relation) }),
      el("b", { textContent: edge.tail.name }));
  }
  const facts = path.edges.flatMap((edge) => edge.facts).map((fact) =>
    el("li", {}, el("code", { textContent: `${fact.head}  ${fact.predicate}  ${fact.tail}` })));
  return el("li", {}, el("details", {}, el("summary", {}, line), el("ul", { class: "stored" }, ...facts)));
}

function preview(paths) {
  return el("div", { class: "card preview" },
    el("h2", { textContent: "Paths found so far" }),
    drawing(paths.slice(0, DRAWN), new Set()));
}

function result(found, given) {
  const ids = new Set(found.answers.map((one) => one.id));
  const topic = found.topic_entities;
  const head = el("div", { class: "head" },
    el("h2", { class: "hidden", textContent: found.question }),
    el("p", { class: "about" }, topic.length ? "about " : "", ...topic.flatMap((one, place) => [place ? ", " : "", entityLink(one)]),
      ` · ${found.timings.total.toFixed(2)} s · ${found.method}`));
  const parts = [head];
  if (found.query && found.answers.length) parts.push(planned(found.query, found));
  else if (found.answers.length) parts.push(...answers(found, ids));
  else parts.push(nothing(found));
  const notes = found.notes.filter(Boolean);
  if (notes.length && found.answers.length) {
    parts.push(el("ul", { class: "notes" }, ...notes.map((note) => el("li", { textContent: note }))));
  }
  if (found.others.length) {
    parts.push(el("details", { class: "others" },
      el("summary", { textContent: `${number(found.others.length)} entities with less behind them` }),
      el("p", {}, ...found.others.slice(0, 30).flatMap((one, place) => [place ? ", " : "", entityLink(one)]))));
  }
  parts.push(actions(found, given));
  return el("div", {}, ...parts);
}

function answers(found, ids) {
  const voted = found.general_llm === null;
  const most = Math.max(...found.answers.map((one) => one.score), 1e-9);
  const cards = found.answers.map((one, place) => {
    const behind = one.paths.map((number_) => found.paths[number_]).filter((path) => path.edges.length)
      .concat(found.expanded.filter((path) => path.edges.at(-1)?.tail.id === one.id));
    const bar = el("span", { class: "share", "aria-hidden": "true" }, el("span"));
    bar.firstChild.style.width = `${Math.max(4, (100 * one.score) / most)}%`;
    const card = el("article", { class: place ? "card" : "card first" },
      el("div", { class: "name" },
        el("h3", {}, one.id ? entityLink(one) : one.name),
        one.grounded ? null : el("span", { class: "badge", textContent: "in no path" }),
        place === 0 && found.confidence !== null
          ? el("span", { class: found.confidence < 0.5 ? "badge" : "confidence", textContent: `${percent(found.confidence)} confident` })
          : voted ? bar : null));
    const asked = (one.conditions ?? []).filter((each) => each.edges.length);
    if (place === 0 || behind.length === 0) card.append(...evidence(behind, ids, asked));
    else {
      const more = el("details", {}, el("summary", { textContent: `${number(behind.length)} ${behind.length === 1 ? "path" : "paths"}` }));
      more.addEventListener("toggle", () => {
        if (more.open && more.children.length === 1) {
          more.append(...evidence(behind, ids, asked));
          more.querySelectorAll(".drawing").forEach((each) => each.drawNow());
        }
      });
      card.append(more);
    }
    return card;
  });
  if (cards.length <= SHOWN) return cards;
  const rest = cards.splice(SHOWN);
  const all = el("button", { type: "button", class: "quiet", textContent: `Show ${number(rest.length)} more answers`,
    onclick: () => all.replaceWith(...rest) });
  return [...cards, all];
}

/** What a plan gave: its sentence, its pattern, its rows with what they rest on, all of them as CSV. */
function planned(query, found) {
  const text = (cell) => cell === null ? "–" : Array.isArray(cell) ? cell.map(text).join(", ") : String(cell.name ?? cell);
  const rows = [...query.rows, ...query.tied.map((values) => ({ values, facts: [], facts_in_all: 0, counted: [] }))];
  const card = el("article", { class: "card first" },
    el("div", { class: "name" },
      el("h3", { textContent: rows.length === 1 ? found.answers[0].name : `${number(rows.length)} rows` }),
      found.confidence === null ? null : el("span", { class: found.confidence < 0.5 ? "badge" : "confidence", textContent: `${percent(found.confidence)} confident` })),
    el("p", { textContent: query.sentence }));
  if (query.pattern.length) {
    const end = (name) => ({ id: name, name });
    const edges = query.pattern.map((hop) => ({ ...hop, head: end(hop.head), tail: end(hop.tail), facts: [] }));
    const holder = el("div", { class: "drawing", tabIndex: 0, role: "region", "aria-label": "The plan's pattern" });
    holder.drawNow = () => draw(holder, [{ edges, asked: true }], new Set(query.columns), null);
    card.append(holder);
  }
  const behind = (row) => [...row.counted.map((one) => `${one.aggregate}: ${one.members.map(text).join(", ")}${one.size > one.members.length ? ` … (${number(one.size)})` : ""}`),
    ...row.facts.map((fact) => `${fact.head}  ${fact.predicate}  ${fact.tail}`),
    ...row.facts_in_all > row.facts.length ? [`… ${number(row.facts_in_all)} facts in all`] : []];
  const lines = rows.slice(0, ROWS).map((row) => el("tr", {},
    ...row.values.map((cell) => el("td", {}, cell?.id ? entityLink(cell) : text(cell))),
    el("td", {}, behind(row).length ? el("details", {}, el("summary", { textContent: "why" }),
      el("ul", { class: "stored" }, ...behind(row).map((one) => el("li", {}, el("code", { textContent: one }))))) : "")));
  card.append(el("div", { class: "rows" }, el("table", {},
    el("thead", {}, el("tr", {}, ...query.columns.map((name) => el("th", { scope: "col", textContent: name })), el("td"))),
    el("tbody", {}, ...lines))));
  const cell = (one) => `"${(one === null ? "" : text(one)).replaceAll('"', '""')}"`;
  const csv = [query.columns, ...rows.map((row) => row.values)].map((row) => row.map(cell).join(",")).join("\r\n");
  const left = rows.length - lines.length;
  const next = query.runners_up.map((values) => values.map(text).join(", "));
  if (next.length) card.append(el("p", { class: "about", textContent: `Next: ${next.join("; ")}` }));
  card.append(el("div", { class: "actions" },
    left > 0 ? el("span", { class: "about", textContent: `${number(left)} more rows in the CSV` }) : null,
    copier("Copy rows as CSV", `${csv}\r\n`), copier("Copy the plan", query.plan),
    query.cypher ? copier("Copy the plan's Cypher", query.cypher) : null));
  return card;
}

function evidence(paths, ids, conditions = []) {
  if (!paths.length) return [el("p", { class: "about", textContent: "No path of the graph ends here." })];
  const shown = [...paths.slice(0, DRAWN), ...conditions];
  const texts = el("ol", { class: "texts" }, ...shown.map(asText));
  const parts = [drawing(shown, ids), texts];
  if (paths.length > DRAWN) {
    const all = el("button", { type: "button", class: "quiet", textContent: `All ${number(paths.length)} paths as text`,
      onclick: () => { texts.append(...paths.slice(DRAWN).map(asText)); all.remove(); } });
    parts.push(all);
  }
  return parts;
}

/** How sure a refusal is: a number beside it would be read as that of an answer. */
const sureness = (confidence) => confidence >= 0.9 ? "Fairly sure." : confidence >= 0.7 ? "Probably." : "Unsure.";

/** What the graph does not know is an answer, too. */
function nothing(found) {
  const said = found.notes.length ? found.notes : ["No answer: the facts found are not evidence enough."];
  const card = el("article", { class: "card calm" },
    el("h3", { textContent: "Not in this graph" }),
    ...said.map((note) => el("p", { textContent: note })));
  if (found.confidence !== null) card.append(el("p", { class: "about", textContent: sureness(found.confidence) }));
  const paths = found.paths.filter((path) => path.edges.length);
  if (paths.length) {
    card.append(el("details", {}, el("summary", { textContent: "What was looked at" }),
      el("ol", { class: "texts" }, ...paths.slice(0, DRAWN).map(asText))));
  }
  return card;
}

function failure(error, given) {
  const card = el("article", { class: "card calm", role: "alert" },
    el("h3", { textContent: error.code === 422 || error.code === 404 ? "This question found no start" : "That did not work" }),
    el("p", { textContent: error.message ?? String(error) }));
  if (error.hint) card.append(el("p", { class: "about", textContent: error.hint }));
  const acts = el("div", { class: "actions" });
  if (error.code === 422 || error.code === 404) {
    acts.append(el("button", { type: "button", class: "quiet", textContent: "Name the topic entity",
      onclick: () => { byId("options").open = true; byId("topic").focus(); } }));
  }
  acts.append(el("button", { type: "button", class: "quiet", textContent: "Ask again", onclick: () => ask() }));
  card.append(acts);
  return el("div", {}, el("h2", { class: "hidden", textContent: given.q }), card);
}

function entityLink(entity) {
  return el("button", { type: "button", class: "entity", textContent: entity.name, title: entity.id ?? "",
    onclick: () => look(entity) });
}

function actions(found, given) {
  const link = new URL(address(given), location).href;
  const acts = [copier("Copy link", link), copier("Copy JSON", JSON.stringify(found, null, 2))];
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

// ── an entity and its neighbours ───────────────────────────────────────────────────────────

async function look(entity, offset = 0) {
  const dialog = byId("entity");
  byId("entity-name").textContent = visible(entity.name);
  byId("entity-id").textContent = visible(entity.id);
  byId("entity-actions").replaceChildren(el("button", { type: "button", textContent: "Ask about it", onclick: () => {
    dialog.close();
    topics = [{ id: entity.id, name: entity.name }];
    chips();
    byId("q").value = "";
    byId("q").placeholder = visible(`A question about ${entity.name}`);
    byId("q").focus();
  } }));
  const list = byId("neighbours");
  if (!offset) list.replaceChildren(el("p", { class: "about", textContent: "Looking …" }));
  if (!dialog.open) dialog.showModal();
  const query = new URLSearchParams({ entity: entity.id, hops: 1, direction: "both", limit: 40, offset });
  if (byId("kg").value) query.set("kg", byId("kg").value);
  try {
    const found = await json(`/api/paths?${query}`);
    if (!offset) list.replaceChildren(el("p", { class: "about", textContent: `${number(found.total)} facts` }));
    list.querySelector(".more")?.remove();
    const rows = found.paths.map((path) => {
      const edge = path.edges[0];
      return el("li", {}, el("span", { class: edge.inverse ? "relation back" : "relation",
        textContent: readable(edge.relation), title: edge.relation }), entityLink(edge.tail));
    });
    list.append(el("ul", { class: "neighbours" }, ...rows));
    if (found.next_offset !== null) {
      list.append(el("button", { type: "button", class: "quiet more", textContent: "More",
        onclick: () => look(entity, found.next_offset) }));
    }
  } catch (error) {
    list.replaceChildren(el("p", { textContent: [error.message, error.hint].filter(Boolean).join(" ") }));
  }
}

// ── the topic entity, with suggestions while typing ────────────────────────────────────────

function chips() {
  byId("chips").replaceChildren(...topics.map((one) => el("button", { type: "button", class: "chip",
    "aria-label": `Remove ${one.name}`, textContent: `${one.name} ✕`, onclick: () => {
      topics = topics.filter((other) => other !== one);
      chips();
    } })));
  const set = [byId("method").value !== "auto" && byId("method").value, byId("k").value && `K ${byId("k").value}`,
    byId("hops").value && `${byId("hops").value} hops`].filter(Boolean);
  byId("options-said").textContent = set.length ? `Options: ${set.join(" · ")}` : "Options";
}

async function suggest() {
  const prefix = byId("topic").value.trim();
  typing?.abort();
  if (!prefix) return suggestions([]);
  const stop = (typing = new AbortController());
  const query = new URLSearchParams({ prefix });
  if (byId("kg").value) query.set("kg", byId("kg").value);
  const found = await json(`/api/entities?${query}`, undefined, stop.signal).catch(() => ({ entities: [] }));
  if (typing === stop) suggestions(found.entities);
}

function suggestions(found) {
  [suggested, marked] = [found, -1];
  byId("suggestions").replaceChildren(...found.map((one, place) => el("li", { role: "option", id: `s${place}`,
    "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); choose(one); } },
  el("span", { textContent: one.name }), el("small", { textContent: `${one.id} · ${number(one.edges)} facts` }))));
  byId("suggestions").hidden = !found.length;
  byId("topic").setAttribute("aria-expanded", String(found.length > 0));
  byId("topic").removeAttribute("aria-activedescendant");
}

function choose(entity) {
  if (!topics.some((one) => one.id === entity.id)) topics.push({ id: entity.id, name: entity.name });
  byId("topic").value = "";
  suggestions([]);
  chips();
}

function onTopicKey(event) {
  if (event.key === "Escape") suggestions([]);
  if (event.key === "Enter") {
    event.preventDefault();
    const typed = byId("topic").value.trim();
    if (suggested[marked] ?? suggested[0]) choose(suggested[marked] ?? suggested[0]);
    else if (typed) choose({ id: typed, name: typed });
    else byId("ask").requestSubmit();
  }
  if ((event.key === "ArrowDown" || event.key === "ArrowUp") && suggested.length) {
    event.preventDefault();
    marked = (marked + (event.key === "ArrowDown" ? 1 : -1) + suggested.length) % suggested.length;
    [...byId("suggestions").children].forEach((one, place) => one.setAttribute("aria-selected", String(place === marked)));
    byId("topic").setAttribute("aria-activedescendant", `s${marked}`);
  }
}

// ── history ────────────────────────────────────────────────────────────────────────────────

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(HISTORY) ?? "[]");
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}

function keep(given) {
  const url = address(given);
  const list = [{ q: given.q, url }, ...kept().filter((one) => one.url !== url)].slice(0, KEPT);
  localStorage.setItem(HISTORY, JSON.stringify(list));
}

function openHistory() {
  const rows = kept().map((one) => el("li", {}, el("a", { href: `/?${String(one.url).split("?")[1] ?? ""}`, textContent: one.q })));
  byId("history-list").replaceChildren(...(rows.length ? rows : [el("li", { class: "about", textContent: "No question yet." })]));
  byId("history").showModal();
}

// ── the page ───────────────────────────────────────────────────────────────────────────────

function fit() {
  byId("q").style.height = "auto";
  byId("q").style.height = `${byId("q").scrollHeight}px`;
}

async function start() {
  const asks = fromAddress(); // before anything is waited for, so that what is typed meanwhile stays
  const found = await json("/api/kgs");
  byId("kg").replaceChildren(...found.kgs.map((one) => el("option", { value: one.name, textContent: one.name })));
  byId("method").replaceChildren(...[...found.methods].sort((a, b) => (b.name === "auto") - (a.name === "auto"))
    .map((one) => el("option", { value: one.name, textContent: one.name, title: one.help })));
  if (!found.kgs.length) throw new Told("No graph is loaded yet.", "Load one: kgqa ingest freebase");
  const [first] = found.kgs;
  byId("sub").textContent = found.kgs.length > 1 ? `${found.kgs.length} graphs: ${found.kgs.map((one) => one.name).join(", ")}. Every answer comes with its path of facts.`
    : `${first.name}: ${number(first.entities)} entities, ${number(first.edges)} facts. Every answer comes with its path, checked in the graph.`;
  choices();
  if (document.body.classList.contains("asked")) return; // asked while the graphs were looked up
  if (asks && ownAddress()) return ask({ remember: false });
  if (asks) byId("go").focus(); // a link from elsewhere asks by a click
  await loading();
}

/** Whether this page's address was asked here before, or is loaded again. */
function ownAddress() {
  const [entry] = performance.getEntriesByType("navigation");
  return entry?.type !== "navigate" || kept().some((one) => one.url === location.pathname + location.search);
}

/** Say what the server still loads, until it is ready or a question is asked. */
async function loading() {
  for (;;) {
    const { state } = await json("/api/kgs").catch(() => ({ state: { ready: true } }));
    if (running || document.body.classList.contains("asked")) return;
    if (state.ready || state.error) return say(state.error ? `${state.error.message} ${state.error.hint}` : "");
    say(`${state.doing || "loading models"} …`, true);
    await new Promise((resolve) => { setTimeout(resolve, 700); });
  }
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const same = event.submitter !== null || address(form()) === current; // the button says Stop
  if (running && same) running.abort();
  else ask(); // Enter under another question asks that one instead
});
byId("q").addEventListener("input", fit);
byId("q").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("ask").requestSubmit();
  }
});
byId("topic").addEventListener("input", suggest);
byId("topic").addEventListener("keydown", onTopicKey);
byId("topic").addEventListener("blur", () => suggestions([]));
for (const name of ["method", "k", "hops"]) byId(name).addEventListener("change", chips);
byId("history-open").addEventListener("click", openHistory);
byId("history-clear").addEventListener("click", () => { localStorage.removeItem(HISTORY); byId("history").close(); });
for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector("[data-close]")?.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog && dialog.id !== "key") dialog.close(); });
}
window.addEventListener("popstate", () => {
  if (fromAddress()) ask({ remember: false });
  else location.reload();
});
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (width === window.innerWidth) return;
  width = window.innerWidth;
  for (const one of document.querySelectorAll(".drawing")) one.drawNow?.();
});
start().catch((error) => { say([error.message, error.hint].filter(Boolean).join(" ")); });
