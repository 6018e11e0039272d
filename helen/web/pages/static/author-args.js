// The form of a check's arguments, made of its table as lint has read it: each has its type, default, limits and help.
import { make } from "./dom.js";

let shown = "";

export function showArguments(place, table) {
  const args = table?.args ?? {};
  const key = JSON.stringify(args);
  if (!table || key === shown) return;
  shown = key;
  const before = typed(place);
  const fields = Object.entries(args).map(([name, about]) => fieldOf(name, about, before[name]));
  place.replaceChildren(make("legend", {}, "Arguments"), ...(fields.length ? fields : [make("p", { class: "quiet" }, "This check takes none.")]));
}

const typed = (place) => Object.fromEntries([...place.querySelectorAll("[data-arg]")].map((input) => [input.dataset.arg, input.value]));

function fieldOf(name, about, before) {
  const shownDefault = Array.isArray(about.default) ? about.default.join(", ") : about.default;
  const hint = about.required ? "must be given" : shownDefault === undefined ? "not given" : `as it is: ${shownDefault}`;
  const more = { "data-arg": name, "data-type": about.type, required: about.required };
  const choices = about.type === "boolean" ? ["true", "false"] : about.choices;
  const input = choices
    ? make("select", more, make("option", { value: "" }, hint), ...choices.map((each) => make("option", { value: String(each) }, String(each))))
    : make("input", {
      ...more, placeholder: hint, autocomplete: "off", spellcheck: "false",
      ...(["number", "integer"].includes(about.type) ? { type: "number", step: about.type === "integer" ? 1 : "any", min: about.min, max: about.max } : {}),
    });
  if (before) input.value = before;
  const limits = [about.min === undefined ? "" : `from ${about.min}`, about.max === undefined ? "" : `to ${about.max}`].join(" ").trim();
  const help = [about.type === "list" ? "list, with commas" : about.type, limits, about.help].filter(Boolean).join("; ");
  return make("label", { class: "field" }, make("span", {}, name), input, make("small", {}, help));
}

// What was typed, by the types of the arguments; what was left as it is, is not given.
export function givenArguments(place) {
  const found = {};
  for (const input of place.querySelectorAll("[data-arg]")) {
    const text = input.value.trim();
    if (text) found[input.dataset.arg] = valueOf(input.dataset.type, text);
  }
  return found;
}

function valueOf(type, text) {
  if (type === "boolean") return text === "true";
  if (type === "number" || type === "integer") return Number(text);
  if (type === "list") return text.split(",").map((each) => each.trim()).filter(Boolean);
  return text;
}
