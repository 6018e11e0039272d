// Makes elements: text of agents and files goes in as text, never as markup, and what is not printable as an escape.
const UNPRINTABLE = /[\p{C}\p{Z}]/gu;

function escaped(letter) {
  if (" \n\t".includes(letter)) return letter;
  if (letter === "\r") return "\\r";
  const code = letter.codePointAt(0);
  const [mark, length] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${mark}${code.toString(16).padStart(length, "0")}`;
}

// As groundwork/safe_text.py has it.
export const safe = (text) => text.replace(UNPRINTABLE, escaped);

const isShown = (child) => child !== null && child !== undefined && child !== false;
const asShown = (child) => (typeof child === "string" ? safe(child) : child);

export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter(isShown).map(asShown));
  return element;
}

// The same without attributes, and with a class alone.
export const plain = (name, ...children) => make(name, {}, ...children);
export const styled = (name, className, ...children) => make(name, { class: className || null }, ...children);

// Puts children in the place of those that are there; what is null or false is left out.
export function fill(element, ...children) {
  element.replaceChildren(...children.filter(isShown).map(asShown));
}

export function stateOf(word, said = word) {
  return make("span", { class: `state s-${word}` }, make("i", { class: "shape", "aria-hidden": "true" }), said);
}

// A command with a button that copies it (keys.js).
export function command(line) {
  return make("span", { class: "copy" }, make("code", {}, line), make("button", { type: "button", "data-copy": line }, "Copy"));
}

export const many = (number, one, more = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : more}`;

// Runs one step of a form: its button is off until it is over, and a refusal is told where the author looks.
export async function attempt(button, fault, step) {
  if (button) button.disabled = true;
  fault.textContent = "";
  try {
    return await step();
  } catch (error) {
    if (error.name !== "AbortError" && error.name !== "Refused") throw error;
    if (error.name === "Refused") fault.textContent = error.message;
    return undefined;
  } finally {
    if (button) button.disabled = false;
    if (button && document.activeElement === document.body) button.focus();
  }
}
