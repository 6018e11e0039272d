// The page of why: its time field in the reader's zone, and [ ] to step through the changes of the check's state.
import { bind } from "./keys.js";
import { isUtc, moment, zoneName } from "./time.js";

const form = document.getElementById("when");
const field = form.elements.at;

// The field has no zone of its own: what is in it is in the zone that all times of the page are in.
const shown = field.dataset.at ? Number(field.dataset.at) * 1000 : Date.now();
document.getElementById("zone").textContent = `at (${zoneName(shown)})`;
if (field.dataset.at) field.value = moment(Number(field.dataset.at), false).replace(" ", "T");

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const address = new URL(location.href);
  if (field.value) address.searchParams.set("at", String(new Date(isUtc() ? `${field.value}Z` : field.value).getTime() / 1000));
  else address.searchParams.delete("at");
  location.href = address;
});

// A link to another moment keeps the zone that the address says.
document.addEventListener("click", ({ target }) => {
  const link = target.closest?.("#main a");
  if (!link || !isUtc() || new URL(link.href).pathname !== location.pathname) return;
  const address = new URL(link.href);
  address.searchParams.set("tz", "UTC");
  link.href = address;
});

const follow = (id) => () => document.getElementById(id)?.click();
bind("[", "the change before", follow("before"), "Why");
bind("]", "the next change", follow("after"), "Why");
bind("n", "now", follow("now"), "Why");
