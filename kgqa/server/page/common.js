// What both pages share: elements made of text (never of HTML), and calls of the API.

// As kgqa/display.py has them: the joiners of Arabic and Indic scripts are spelling.
const HIDDEN = /(?!(?<=[\u0620-\u0dff])[\u200c\u200d](?=[\u0620-\u0dff]))[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu;

/** Text with an escape for each character that would not be seen, or that reorders others. */
export function visible(text) {
  return String(text).replace(HIDDEN, (one) => {
    if ("\t\n\r".includes(one)) return JSON.stringify(one).slice(1, -1);
    const code = one.codePointAt(0).toString(16);
    const [mark, length] = code.length < 3 ? ["x", 2] : code.length < 5 ? ["u", 4] : ["U", 8];
    return `\\${mark}${code.padStart(length, "0")}`;
  });
}

/** An element with properties, attributes (aria-*, data-*, role …) and children; text is text. */
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name === "textContent" || name === "title") node[name] = visible(value);
    else if (name in node && !name.includes("-")) node[name] = value;
    else node.setAttribute(name, value);
  }
  const there = children.filter((child) => child !== null && child !== undefined);
  node.append(...there.map((child) => (typeof child === "string" ? visible(child) : child)));
  return node;
}

export const byId = (id) => document.getElementById(id);
export const percent = (value) => (value >= 0.005 ? `${Math.min(Math.round(100 * value), 99)} %` : "<1 %");
export const listed = (names) => names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
export const number = (value) => Number(value).toLocaleString("en");

/** An error as the server tells it: a sentence and what to do next. */
export class Told extends Error {
  constructor(message, hint = "", code = 0) {
    super(message.replace(/`(\w+)`/g, "$1")); // parameters' names stand in backticks
    this.hint = (hint ?? "").replace(/`(\w+)`/g, "$1");
    this.code = code;
  }
}

/** Call the API; resolves to the response, or throws what the server reported. */
export async function call(path, body, signal, accept = "application/json") {
  const headers = { accept };
  const key = sessionStorage.getItem("kgqa-key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (body) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Told("The server does not answer.", "Is kgqa serve still running?");
  }
  if (response.ok) return response;
  if (response.status === 401) {
    await askForKey();
    return call(path, body, signal, accept);
  }
  const said = await response.json().catch(() => ({}));
  const error = said.error ?? { message: `The server answered ${response.status}.` };
  throw new Told(error.message, error.hint, response.status);
}

export const json = async (path, body, signal) => (await call(path, body, signal)).json();

let asking = null;

/** Ask for the server's key, once for all calls that need it. */
function askForKey() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("key");
    if (!dialog) {
      const given = prompt("This server asks for an API key.") ?? "";
      sessionStorage.setItem("kgqa-key", given);
      resolve();
      return;
    }
    const form = document.getElementById("key-form");
    form.onsubmit = () => sessionStorage.setItem("kgqa-key", byId("key-value").value.trim());
    dialog.onclose = resolve;
    dialog.showModal();
  }).finally(() => { asking = null; });
  return asking;
}

/** A cell of CSV. A spreadsheet runs a text that begins as a formula does, so an apostrophe stands before it. */
export function csvCell(text) {
  const formula = /^[ \n]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/.test(text) && Number.isNaN(Number(text));
  return `"${formula ? "'" : ""}${text.replaceAll('"', '""')}"`;
}
