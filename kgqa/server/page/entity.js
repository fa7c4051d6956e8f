// An entity's panel: what is known of it, grouped by relation; and a field that suggests entities.
import { byId, el, json, number, visible } from "/common.js";
import { VERB, readable } from "/draw.js";

const PAGE = 200; // facts that are read at once
const FEW = 8; // of a relation that are shown at first
const GROWN = 12; // facts that are drawn at once

/** Show an entity. `holder`: the drawing that its facts may be added to; `page`: `kg`, `ask about`. */
export async function look(entity, holder, page) {
  const dialog = byId("entity");
  byId("entity-name").textContent = visible(entity.name);
  byId("entity-id").textContent = visible(entity.id);
  const list = byId("neighbours"), filter = byId("neighbour-filter");
  const edges = [];
  let shown = []; // as filtered
  const grow = (some) => { holder.grow(some); dialog.close(); };
  byId("entity-actions").replaceChildren(
    el("button", { type: "button", textContent: "Ask about it", onclick: () => { dialog.close(); page.about(entity); } }),
    ...(holder ? [el("button", { type: "button", class: "quiet", textContent: "Draw its facts", onclick: () => grow(shown.slice(0, GROWN)) })] : []));
  list.replaceChildren(el("p", { class: "about", textContent: "Looking …" }));
  filter.value = "";
  if (!dialog.open) dialog.showModal();
  const row = (edge) => el("li", {},
    el("button", { type: "button", class: "entity", textContent: edge.tail.name, title: edge.tail.id, onclick: () => look(edge.tail, holder, page) }),
    holder ? el("button", { type: "button", class: "quiet add", textContent: "draw", "aria-label": `Draw ${edge.tail.name}`, onclick: () => grow([edge]) }) : null);
  const said = ({ relation, inverse }) => {
    const words = readable(relation);
    return !inverse ? words : VERB.test(words) ? `${words} ${entity.name}` : `${words} of`;
  };
  const render = (total) => {
    const wanted = filter.value.trim().toLowerCase();
    shown = edges.filter((edge) => `${readable(edge.relation)} ${edge.tail.name}`.toLowerCase().includes(wanted));
    const groups = Map.groupBy(shown, (edge) => `${edge.inverse ? "← " : ""}${edge.relation.replace(/^\^/, "")}`);
    list.replaceChildren(el("p", { class: "about", role: "status", textContent: wanted ? `${number(shown.length)} of ${number(total)} facts` : `${number(total)} facts` }),
      ...[...groups.values()].map((group) => {
        const rest = group.slice(FEW).map(row);
        const rows = el("ul", { class: "neighbours" }, ...group.slice(0, FEW).map(row));
        const all = rest.length ? el("button", { type: "button", class: "quiet", textContent: `${number(rest.length)} more`, onclick: () => { rows.append(...rest); all.remove(); } }) : null;
        return el("section", {}, el("h3", { class: "relation", title: group[0].relation,
          textContent: said(group[0]) }), rows, all);
      }));
  };
  const more = async () => {
    const query = new URLSearchParams({ entity: entity.id, hops: 1, direction: "both", limit: PAGE, offset: edges.length });
    if (page.kg()) query.set("kg", page.kg());
    const found = await json(`/api/paths?${query}`);
    if (byId("entity-id").textContent !== visible(entity.id)) return; // another one was chosen
    edges.push(...found.paths.map((path) => path.edges[0]));
    filter.oninput = () => render(found.total);
    filter.hidden = found.total <= FEW;
    render(found.total);
    if (found.next_offset !== null) list.append(el("button", { type: "button", class: "quiet more", textContent: "Read more facts", onclick: more }));
  };
  await more().catch((error) => list.replaceChildren(el("p", { textContent: [error.message, error.hint].filter(Boolean).join(" ") })));
}

/** Suggest entities in `list` while `field` is typed in; `choose` gets the chosen {id, name}. */
export function combobox(field, list, choose, kg) {
  let suggested = [], marked = -1, typing = null;
  const name = (place) => `${list.id}-${place}`;
  const show = (found) => {
    [suggested, marked] = [found, -1];
    list.replaceChildren(...found.map((one, place) => el("li", { role: "option", id: name(place),
      "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); take(one); } },
    el("span", { textContent: one.name }), el("small", { textContent: `${one.id} · ${number(one.edges)} facts` }))));
    list.hidden = !found.length;
    field.setAttribute("aria-expanded", String(found.length > 0));
    field.removeAttribute("aria-activedescendant");
  };
  const take = (entity) => {
    field.value = "";
    show([]);
    choose({ id: entity.id, name: entity.name });
  };
  for (const [key, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": list.id })) field.setAttribute(key, value);
  field.addEventListener("input", async () => {
    const prefix = field.value.trim();
    typing?.abort();
    if (!prefix) return show([]);
    const stop = (typing = new AbortController());
    const query = new URLSearchParams({ prefix });
    if (kg()) query.set("kg", kg());
    const found = await json(`/api/entities?${query}`, undefined, stop.signal).catch(() => ({ entities: [] }));
    if (typing === stop) show(found.entities);
  });
  field.addEventListener("blur", () => show([]));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show([]);
    if (event.key === "Enter") {
      event.preventDefault();
      const typed = field.value.trim();
      if (suggested[marked] ?? suggested[0]) take(suggested[marked] ?? suggested[0]);
      else if (typed) take({ id: typed, name: typed });
      else field.form?.requestSubmit();
    }
    if ((event.key === "ArrowDown" || event.key === "ArrowUp") && suggested.length) {
      event.preventDefault();
      marked = (marked + (event.key === "ArrowDown" ? 1 : -1) + suggested.length) % suggested.length;
      [...list.children].forEach((one, place) => one.setAttribute("aria-selected", String(place === marked)));
      field.setAttribute("aria-activedescendant", name(marked));
    }
  });
}
