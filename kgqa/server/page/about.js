// What is served: KGs with their indexes, models, versions.
import { byId, el, json, number } from "/common.js";

const size = (bytes) => (bytes > 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${number(Math.ceil(bytes / 1e3))} kB`);

function facts(rows) {
  return el("dl", { class: "facts" }, ...rows.filter(([, value]) => value !== null && value !== undefined)
    .flatMap(([name, value]) => [el("dt", { textContent: name }), el("dd", { textContent: value })]));
}

/** What a graph holds: its types with their properties, and its relations. */
function schema(found) {
  const types = found.types.map((one) => el("li", {}, el("b", { textContent: `${one.name} (${number(one.count)})` }),
    one.properties.length ? `: ${one.properties.map((each) => each.example === undefined ? each.name : `${each.name} (${each.example})`).join(", ")}` : ""));
  const relations = found.relations.map((one) => el("li", {
    textContent: `${one.head || "anything"} → ${one.relation} → ${one.tail || "anything"} (${number(one.count)})` }));
  const left = found.more.types + found.more.relations;
  return el("details", {}, el("summary", { textContent: "Types, properties and relations" }),
    types.length ? el("ul", {}, ...types) : null, el("ul", {}, ...relations),
    left ? el("p", { class: "about", textContent: `${number(left)} more` }) : null);
}

function graph(kg) {
  const fits = kg.indexes.filter((index) => index.fits);
  const indexes = fits.map((index) =>
    `${number(index.paths)} paths of at most ${index.hops} hops from ${number(index.stored)} entities, ${size(index.bytes)}`);
  return el("article", { class: "card" },
    el("h3", { textContent: kg.name }),
    facts([
      ["entities", number(kg.entities)],
      ["edges", number(kg.edges)],
      ["relations", kg.relations === undefined ? null : number(kg.relations)],
      ["mediators", number(kg.mediators)],
      ["walked", kg.direction === "both" ? "both ways" : "as stored"],
      ["source", kg.source],
      ["version", kg.version],
      ["index", indexes.join("; ") || "none that fits the model: answered on the fly"],
    ]));
}

try {
  byId("v1").textContent = `${location.origin}/v1`;
  byId("mcp").textContent = `${location.origin}/mcp`;
  const [{ state }, health] = await Promise.all([json("/api/kgs"), json("/health")]);
  const model = state.ready ? "loaded" : state.error?.message ?? (state.doing || "loading");
  byId("about").append(el("h2", { textContent: "Server" }),
    facts([["version", `kgqa ${health.version}`], ["models", model]]));
  const found = await json("/api/status");
  byId("about").lastChild.append(...facts([
    ["KG-LLM", found.kg_llm && [found.kg_llm.model, found.kg_llm.adapter].filter(Boolean).join(" with adapter ")],
    ["general LLM", found.general_llm ?? "none"],
    ["store", found.graph],
    ["questions", `${found.running} being answered, ${found.waiting} waiting`],
  ]).childNodes);
  const cards = found.kgs.map(graph);
  byId("about").append(el("h2", { textContent: "Graphs" }), ...cards);
  for (const [place, kg] of found.kgs.entries()) {
    json(`/api/schema?${new URLSearchParams({ kg: kg.name })}`).then((one) => cards[place].append(schema(one)), () => {});
  }
  byId("status").hidden = true;
} catch (error) {
  byId("status").textContent = [error.message, error.hint].filter(Boolean).join(" ");
}
