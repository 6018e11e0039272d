// Applies the reader's theme before the page is painted, and keeps it in this browser.
const KEY = "helen.theme";

export function stored(name, fallback) {
  try { return localStorage.getItem(name) ?? fallback; } catch { return fallback; }
}

export function store(name, value) {
  try { localStorage.setItem(name, value); } catch { /* private windows keep nothing */ }
}

export function nextTheme() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).colorScheme === "dark"
    || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = isDark ? "light" : "dark";
  store(KEY, root.dataset.theme);
}

const wanted = stored(KEY, "");
if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
