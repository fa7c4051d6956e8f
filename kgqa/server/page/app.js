// The page: ask, watch, and look at the paths behind each answer.
import { failure, preview, result, spoken } from "/answer.js";
import { Told, byId, call, el, json, listed, number, visible } from "/common.js";
import { combobox, look } from "/entity.js";

const KEPT = 50; // questions of the history
const TURNS = 3; // earlier questions that a follow-up is sent with
const HISTORY = "kgqa-history";

let running = null; // what stops the question that is being asked
let current = ""; // the address of that question
let topics = []; // chosen entities: {id, name}
let bound = false; // whether they belong to the question as it stands, and not to another one
let before = []; // answered questions that a follow-up may leave things to
let clock = 0; // what counts the seconds of a question

const page = {
  ask: () => ask(),
  choose: (entities) => { topics = entities.map(({ id, name }) => ({ id, name })); bound = true; chips(); ask(); },
  look: (entity, holder) => look(entity, holder, page),
  link: (given) => new URL(address(given), location).href,
  kg: () => byId("kg").value,
  nameTopic: () => { byId("options").open = true; byId("topic").focus(); },
  about: (entity) => {
    topics = [{ id: entity.id, name: entity.name }];
    bound = false;
    chips();
    byId("q").value = "";
    byId("q").placeholder = visible(`A question about ${entity.name}`);
    byId("q").focus();
  },
};

// ── asking ─────────────────────────────────────────────────────────────────────────────────

/** The question with its options as the form has them. */
function form() {
  const given = { q: byId("q").value.trim(), kg: byId("kg").value || new URLSearchParams(location.search).get("kg"), method: byId("method").value };
  for (const name of ["k", "hops"]) if (byId(name).value) given[name] = Number(byId(name).value);
  return { ...given, entities: topics };
}

/** The address that asks the same again: whoever follows it sees the same. */
function address(given) {
  const query = new URLSearchParams({ q: given.q });
  if (given.kg && byId("kg").options.length !== 1) query.set("kg", given.kg);
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
  bound = true;
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
  const began = performance.now();
  clearInterval(clock);
  clock = setInterval(() => { byId("status").dataset.seconds = ` ${Math.round((performance.now() - began) / 1000)} s`; }, 1000);
  const body = { question: given.q, kg: given.kg || undefined, method: given.method || undefined,
    k: given.k, hops: given.hops, entities: given.entities.map((one) => one.id),
    after: before.length ? before : undefined };
  try {
    const response = await call("/api/ask", body, stop.signal, "text/event-stream");
    await watch(response, given);
    keep(given);
  } catch (error) {
    if (error.name !== "AbortError") show(failure(error, given, page));
    if (running === stop) say("");
  } finally {
    if (running === stop) {
      running = null;
      clearInterval(clock);
      byId("result").setAttribute("aria-busy", "false");
      byId("go").textContent = "Ask";
    }
  }
}

/** Show what happens to the question as the server sends it. */
async function watch(response, given) {
  const seen = new Map();
  let about = "";
  for await (const [event, data] of events(response)) {
    if (event === "queued" && data.ahead) say(`Waiting: ${data.ahead} ahead …`, true);
    else if (event === "loading") say(`${data.text} …`, true);
    else if (event === "linked") {
      about = data.topic_entities.length ? `About ${listed(data.topic_entities.map((one) => one.name))}. ` : "";
      say(`${about}Searching …`, true);
    } else if (event === "paths") {
      for (const path of data.paths) if (path.edges.length) seen.set(path.text, path);
      say(`${about}${number(seen.size)} ${seen.size === 1 ? "path" : "paths"} found so far …`, true);
      if (seen.size) show(preview([...seen.values()]));
    } else if (event === "answer") {
      say("");
      byId("said").textContent = visible(spoken(data));
      if (before.length) asItWasRead(data, given);
      before = [...before, turn(data)].slice(-TURNS);
      show(result(data, given, page, following()));
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
  bound = true;
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
  delete byId("status").dataset.seconds;
  byId("said").textContent = "";
  byId("status").classList.toggle("busy", busy);
}

function show(...nodes) {
  byId("result").replaceChildren(...nodes);
  for (const one of byId("result").querySelectorAll(".drawing")) one.drawNow();
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

function addTopic(entity) {
  if (!topics.some((one) => one.id === entity.id)) topics.push(entity);
  bound = false;
  chips();
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
  examples();
  await loading();
}

/** Questions that this graph answers, as long as none is asked. */
async function examples() {
  if (document.body.classList.contains("asked")) return;
  const kg = byId("kg").value;
  const found = await json(`/api/examples?${new URLSearchParams({ kg })}`).catch(() => ({ questions: [] }));
  if (kg !== byId("kg").value) return;
  byId("examples").hidden = !found.questions.length;
  byId("examples").lastElementChild.replaceChildren(...found.questions.map((one) =>
    el("li", {}, el("button", { type: "button", class: "chip", textContent: one, onclick: () => { byId("q").value = one; fit(); ask(); } }))));
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
byId("q").addEventListener("input", () => {
  fit();
  if (!bound) return;
  [topics, bound] = [[], false];
  chips();
});
byId("q").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    byId("ask").requestSubmit();
  }
});
combobox(byId("topic"), byId("suggestions"), addTopic, page.kg);
byId("kg").addEventListener("change", examples);
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
