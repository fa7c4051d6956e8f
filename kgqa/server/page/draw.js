// Paths as a graph in SVG: a layer for each hop, left to right; top to bottom where it is narrow.
// All text is put in as text, and all shapes are made by hand: nothing here parses markup.

import { visible } from "/common.js";

const NS = "http://www.w3.org/2000/svg";
const BOX = 34; // pixels that a box with one line is high
const LINE = 18; // a further line
const LINES = 4; // of a name
const GAP = 18; // between boxes of a layer
const WIDEST = 210; // of a box
const LABEL = 190; // of a relation

const ruler = document.createElement("canvas").getContext("2d");

function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const widthOf = (text, font) => { ruler.font = font; return ruler.measureText(text).width; };

function fitted(name, most, font) {
  let text = visible(name);
  if (widthOf(text, font) <= most) return text;
  while (text.length > 1 && widthOf(`${text}…`, font) > most) text = text.slice(0, -1);
  return `${text}…`;
}

/** A name as lines, broken between words, and within those that are too long. */
function wrapped(name, most, font) {
  const lines = [""];
  for (const word of visible(name).split(/(?<=[\s/_-])/)) {
    for (let rest = word; rest;) {
      if (widthOf(lines.at(-1) + rest.trimEnd(), font) <= most) [lines[lines.length - 1], rest] = [lines.at(-1) + rest, ""];
      else if (lines.at(-1)) lines.push("");
      else {
        const part = fitted(rest, most, font).slice(0, -1);
        lines[lines.length - 1] = part;
        rest = rest.slice(part.length);
      }
    }
  }
  const rest = lines.splice(LINES - 1).join("");
  return [...lines, ...(rest ? [fitted(rest, most, font)] : [])].map((one) => one.trim());
}

/** Words of a relation that its tail follows: "operated by", not "captain". */
export const VERB = /^\S+(ed|[^s]s)\b|\b(by|in|of|at|to|from|on|with|for)$/;

/** The last words of a relation, readable: people.person.place_of_birth is "place of birth". */
export function readable(relation) {
  const words = (one) => one.replace(/^\^/, "").split(/[./]/).filter(Boolean).at(-1)
    ?.replace(/_s$/, "").replace(/[_-]+/g, " ").replace(/([a-z\d])([A-Z])/g, "$1 $2").toLowerCase() ?? one;
  const parts = relation.split("..").map(words);
  return [...new Set(parts)].join(" · ");
}

/**
 * The nodes and links of paths: a node for each entity at each depth, a link for each hop. A
 * condition (a path with `asked`) begins where a path before it has that entity.
 */
function layered(paths, opened) {
  const nodes = new Map(), links = new Map();
  const node = (depth, entity, kind) => {
    const key = `${depth} ${entity.id}`;
    if (!nodes.has(key)) nodes.set(key, { key, depth, entity, kind, in: [], out: 0 });
    return nodes.get(key);
  };
  const link = (from, to, label, full, backward, toggle) => {
    const key = `${from.key}>${full}>${to.key}`;
    if (links.has(key)) return;
    links.set(key, { key, from, to, label, full, backward, toggle });
    to.in.push(from);
    from.out += 1;
  };
  for (const path of paths) {
    let depth = 0;
    let at = null;
    for (const edge of path.edges) {
      if (!at || at.entity.id !== edge.head.id) {
        const there = path.asked && [...nodes.values()].find((one) => one.entity.id === edge.head.id);
        depth = there ? there.depth : 0;
        at = there || node(0, edge.head, "topic");
      }
      const hop = `${edge.head.id} ${edge.relation} ${edge.tail.id}`;
      if (edge.facts.length === 2 && opened.has(hop)) {
        const [first, second] = edge.facts;
        const id = [first.head, first.tail].find((end) => end === second.head || end === second.tail);
        const middle = node(depth + 1, { id, name: "" }, "mediator");
        middle.toggle = hop;
        const backward = (fact, from) => fact.head !== from;
        link(at, middle, readable(first.predicate), first.predicate, backward(first, edge.head.id));
        at = node((depth += 2), edge.tail, "entity");
        link(middle, at, readable(second.predicate), second.predicate, backward(second, middle.entity.id));
      } else {
        const from = at;
        at = node((depth += 1), edge.tail, "entity");
        link(from, at, readable(edge.relation), edge.relation, edge.inverse,
          edge.facts.length === 2 ? hop : null);
      }
    }
  }
  return [[...nodes.values()], [...links.values()]];
}

/**
 * Draw paths into `holder`. `answers`: the ids that are answers; `onEntity` is called with the
 * entity that was chosen; null if none can be. A hop through a mediator opens to its two facts and
 * closes again. `named`: relations by their ids.
 */
export function draw(holder, paths, answers, onEntity, opened = new Set(), named = false) {
  const style = getComputedStyle(holder);
  const font = `500 14px ${style.fontFamily}`, small = `12px ${style.fontFamily}`;
  const [nodes, links] = layered(paths, opened);
  const room = holder.clientWidth || 640;
  const layers = [];
  for (const one of nodes) {
    one.lines = one.kind === "mediator" ? [""] : wrapped(one.entity.name, Math.min(WIDEST, room - 12) - 28, font);
    one.width = one.kind === "mediator" ? 16 : Math.max(...one.lines.map((text) => widthOf(text, font) + 28), 56);
    one.height = one.kind === "mediator" ? 16 : BOX + LINE * (one.lines.length - 1);
    (layers[one.depth] ??= []).push(one);
  }
  for (const one of links) {
    one.text = fitted(named ? one.full : one.label, LABEL, small);
    one.size = widthOf(one.text, small);
  }
  for (const layer of layers.slice(1)) { // below the middle of what leads to it
    const middle = (one) => one.in.reduce((sum, from) => sum + (from.order ?? 0), 0) / (one.in.length || 1);
    layer.sort((a, b) => middle(a) - middle(b));
    layer.forEach((one, place) => { one.order = place; });
  }
  const gaps = layers.map((_, depth) =>
    Math.max(64, ...links.filter((one) => one.from.depth === depth).map((one) => 1.2 * one.size + (one.toggle ? 84 : 62))));
  const columns = layers.map((layer) => Math.max(...layer.map((one) => one.width)));
  const wide = columns.reduce((sum, width, depth) => sum + width + (depth ? gaps[depth - 1] : 0), 8);
  const down = wide > room && room < 620;
  const span = (layer) => layer.reduce((sum, one) => sum + (down ? one.width : one.height) + GAP, -GAP);
  const across = Math.max(...layers.map(span));
  let along = 4;
  layers.forEach((layer, depth) => {
    let side = (across - span(layer)) / 2 + 4;
    for (const one of layer) {
      one.x = down ? side : along;
      one.y = down ? along : side;
      side += (down ? one.width : one.height) + GAP;
    }
    along += down ? Math.max(...layer.map((one) => one.height)) + 56 : columns[depth] + gaps[depth];
  });
  const width = Math.max(...nodes.map((one) => one.x + one.width)) + 4;
  const height = Math.max(...nodes.map((one) => one.y + one.height)) + 6;
  const redraw = (hop) => {
    if (!opened.delete(hop)) opened.add(hop);
    draw(holder, paths, answers, onEntity, opened, named);
    [...holder.querySelectorAll("[data-hop]")].find((one) => one.dataset.hop === hop)?.focus();
  };
  const picture = svg("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, class: "paths", role: "group",
    "aria-label": paths.map((path) => path.edges.map((edge) =>
      `${edge.head.name}, ${edge.inverse ? "from " : ""}${readable(edge.relation)}, ${edge.tail.name}`).join("; ")).join(". "),
  });
  const shared = new Map(); // how many links lie between the same two boxes
  for (const one of links) picture.append(lineOf(one, down, shared, redraw));
  for (const one of nodes) picture.append(boxOf(one, answers, onEntity, redraw));
  holder.replaceChildren(picture);
}

function button(group, label, act) {
  group.setAttribute("role", "button");
  group.setAttribute("tabindex", "0");
  group.setAttribute("aria-label", label);
  group.addEventListener("click", act);
  group.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      act();
    }
  });
  return group;
}

function title(text) {
  const node = svg("title");
  node.textContent = visible(text);
  return node;
}

function lineOf(one, down, shared, redraw) {
  const { from, to } = one;
  const pair = `${from.key}|${to.key}`;
  const turn = shared.get(pair) ?? 0;
  shared.set(pair, turn + 1);
  const bend = turn * 22;
  const [x1, y1, x2, y2] = down
    ? [from.x + from.width / 2, from.y + from.height, to.x + to.width / 2, to.y]
    : [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
  // the label lies on the line, nearer to the end where fewer lines meet
  const t = to.in.length > from.out ? 0.4 : to.in.length < from.out ? 0.6 : 0.5;
  const late = 3 * t * t - 2 * t ** 3, half = 1.5 * t * (1 - t) + t ** 3, bulge = 3 * t * (1 - t) * bend;
  const mx = x1 + (x2 - x1) * (down ? late : half) + (down ? bulge : 0);
  const my = y1 + (y2 - y1) * (down ? half : late) + (down ? 0 : bulge);
  const d = down
    ? `M${x1} ${y1} C${x1 + bend} ${(y1 + y2) / 2} ${x2 + bend} ${(y1 + y2) / 2} ${x2} ${y2}`
    : `M${x1} ${y1} C${(x1 + x2) / 2} ${y1 + bend} ${(x1 + x2) / 2} ${y2 + bend} ${x2} ${y2}`;
  const group = svg("g", { class: one.toggle ? "link opens" : "link" });
  const tip = one.backward ? [x1, y1, -1] : [x2, y2, 1];
  const arrow = down
    ? `M${tip[0] - 4} ${tip[1] - 7 * tip[2]} L${tip[0]} ${tip[1]} L${tip[0] + 4} ${tip[1] - 7 * tip[2]}`
    : `M${tip[0] - 7 * tip[2]} ${tip[1] - 4} L${tip[0]} ${tip[1]} L${tip[0] - 7 * tip[2]} ${tip[1] + 4}`;
  const wide = one.size + (one.toggle ? 34 : 12);
  const text = svg("text", { x: mx - (one.toggle ? 8 : 0), y: my + 4, "text-anchor": "middle" });
  text.textContent = one.text;
  group.append(
    svg("path", { d, class: "line" }), svg("path", { d: arrow, class: "arrow" }),
    svg("rect", { x: mx - wide / 2, y: my - 11, width: wide, height: 22, rx: 11, class: "label" }),
    text, title(one.full),
  );
  if (one.toggle) {
    group.dataset.hop = one.toggle;
    group.append(svg("circle", { cx: mx + wide / 2 - 11, cy: my, r: 3.5, class: "dot" }));
    button(group, `${one.full}: open the two facts of this hop`, () => redraw(one.toggle));
  }
  return group;
}

function boxOf(one, answers, onEntity, redraw) {
  const group = svg("g", { class: "node" });
  if (one.kind === "mediator") {
    group.classList.add("mediator");
    group.dataset.hop = one.toggle;
    group.append(
      svg("circle", { cx: one.x + 8, cy: one.y + 8, r: 14, class: "reach" }),
      svg("circle", { cx: one.x + 8, cy: one.y + 8, r: 7 }), title(one.entity.id));
    return button(group, "Close this hop's two facts", () => redraw(one.toggle));
  }
  if (one.kind === "topic") group.classList.add("topic");
  if (answers.has(one.entity.id)) group.classList.add("answer");
  if (one.entity.all) group.classList.add("all");
  group.dataset.id = one.entity.id;
  const middle = one.x + one.width / 2;
  const text = svg("text", { x: middle, y: one.y + 22, "text-anchor": "middle" });
  one.lines.forEach((line, place) => {
    const part = svg("tspan", { x: middle, y: one.y + 22 + LINE * place });
    part.textContent = line;
    text.append(part);
  });
  group.append(
    svg("rect", { x: one.x, y: one.y, width: one.width, height: one.height, rx: 10 }),
    text, title(`${one.entity.name} (${one.entity.id})`));
  return onEntity && !one.entity.all ? button(group, `${one.entity.name}: show what is known`, () => onEntity(one.entity)) : group;
}
