// Publishes the draft: shows first who would get it when, holds it to what the author has read, and takes it back.
import { ask, dryRun, read, write } from "./api.js";
import { attempt, command, make, many } from "./dom.js";
import { showDifference } from "./editor.js";
import { openDialog } from "./keys.js";

const FILES = "/api/v1/checks/files";

// page: {name, testName, known: {text, tests, etag}, text(), tests(), signs, take(text, tests), published(), watch()}
export function setUpPush(page) {
  const form = document.getElementById("push");
  const fault = document.getElementById("push-fault");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(form.querySelector("button"), fault, () => plan(page, form, fault));
  });
}

function gatesOf(text) {
  const pairs = text.trim().split(/[\s,]+/).filter(Boolean).map((each) => {
    const at = each.indexOf("=");
    return at < 0 ? [each, ""] : [each.slice(0, at), each.slice(at + 1)];
  });
  return pairs.length ? { gates: Object.fromEntries(pairs) } : {};
}

function bodyOf(page, form) {
  const tests = page.tests();
  const isLess = page.testName && !tests.trim() && page.known.tests;
  return {
    files: { [page.name]: page.text() }, rings: form.elements.rings.value.trim(), ...gatesOf(form.elements.gates.value),
    ...(tests.trim() ? { tests: { [page.name]: tests } } : {}),
    ...(isLess ? { remove: [page.testName] } : {}),
  };
}

async function plan(page, form, fault, isSecond = false) {
  let shown;
  const body = bodyOf(page, form);
  try {
    shown = await dryRun("/api/v1/push", body, { "if-match": page.known.etag });
  } catch (error) {
    if (error.status !== 412) throw error;
    if (await isOnlyElsewhere(page) && !isSecond) return plan(page, form, fault, true);
    return undefined;
  }
  const send = make("button", { class: "main" }, "Push");
  const cancel = make("button", { type: "button" }, "Cancel");
  const refused = make("p", { class: "fault wrap", role: "alert" });
  const rings = shown.plan.map(({ ring, size, members }) => make("li", { class: "wrap" }, make("b", {}, ring), `: ${many(size, "agent")}`,
    members.length ? `, ${members.slice(0, 8).join(", ")}${members.length > 8 ? " ..." : ""}` : ""));
  const made = make("form", {},
    ...shown.warnings.map((text) => make("p", { class: "note warning wrap" }, text)),
    rings.length ? make("ol", { class: "plan" }, ...rings) : make("p", {}, "All agents get it at once."),
    make("p", { class: "quiet" }, page.signs ? "Each ring is watched, and a version that is bad goes back by itself." : "No signing key is here: it waits until it is signed elsewhere."),
    refused, send, " ", cancel);
  const dialog = openDialog(`Push ${page.name}?`, made);
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => form.querySelector("button").focus());
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(send, refused, async () => {
      try {
        await write("/api/v1/push", body, { headers: { "if-match": page.known.etag } });
      } catch (error) {
        if (error.status !== 412) throw error;
        dialog.close();
        return isOnlyElsewhere(page);
      }
      dialog.close();
      await learn(page, body);
      return page.signs ? page.watch() : showStaged(page);
    });
  });
  send.focus();
  return undefined;
}

// Reads what the folder has now. What the author has just pushed is what it has seen last.
async function learn(page, body) {
  const answer = await ask("GET", FILES);
  const { tests } = await answer.json();
  page.published({ text: body.files[page.name], tests: tests[page.name] ?? "", etag: answer.headers.get("etag") });
}

// After a 412. Returns true if another file was changed and this one was not; else shows what was changed.
async function isOnlyElsewhere(page) {
  const answer = await ask("GET", FILES);
  const etag = answer.headers.get("etag");
  const { files, tests } = await answer.json();
  const theirs = { text: files[page.name] ?? "", tests: tests[page.name] ?? "", etag };
  if (theirs.text === page.known.text && theirs.tests === page.known.tests) {
    page.known.etag = etag;
    return true;
  }
  const host = make("div", { class: "pane" });
  const isText = theirs.text !== page.known.text;
  const take = make("button", { type: "button" }, "Take the other text, drop mine");
  const keep = make("button", { type: "button", class: "main" }, "Keep mine, and go on from there");
  const dialog = openDialog(`${page.name} was changed meanwhile`,
    make("p", {}, `${isText ? "The file" : "Its tests"} in the folder changed after you had read it. Marked: how yours differs from what is there now.`), host,
    make("p", { class: "bar" }, keep, take));
  dialog.classList.add("wide");
  if (isText) showDifference(host, theirs.text, page.text(), "Your text against the one in the folder");
  else showDifference(host, theirs.tests, page.tests(), "Your tests against those in the folder");
  take.addEventListener("click", () => { dialog.close(); page.take(theirs); });
  keep.addEventListener("click", () => { dialog.close(); page.keepMine(theirs); });
  return false;
}

async function showStaged(page) {
  const { staged } = await read("/api/v1/push");
  const place = document.getElementById("staged");
  place.hidden = false;
  if (!staged) {
    place.replaceChildren(make("p", { class: "note" }, "The agents run this already: there is nothing to sign."));
    return;
  }
  place.replaceChildren(
    make("p", { class: "note warning" }, `Version ${staged.version} waits for a signature: ${many(Object.keys(staged.files).length, "file")}, and the way back.`),
    make("p", {}, "Where the signing key is:"), command("helen push --key FILE"),
    make("details", {}, make("summary", {}, "What is signed"), make("dl", { class: "facts" },
      ...Object.entries(staged.files).flatMap(([name, sha256]) => [make("dt", {}, name), make("dd", { class: "mono" }, sha256)]))));
  page.note(`${page.name} lies in the folder, and is not out before it is signed.`);
}
