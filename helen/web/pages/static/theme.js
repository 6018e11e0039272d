// Keeps what the reader has chosen. Helen reads the cookies, and each page comes as it was chosen (preferences.py): to read
// them here, or what is stored, asks another process of the browser, and the page waits for that.
export function keep(name, value) {
  document.documentElement.dataset[name] = value;
  document.cookie = `helen-${name}=${value}; path=/; max-age=31536000; samesite=lax`;
}

export function nextTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  keep("theme", isDark ? "light" : "dark");
}

// Texts that a page gives back later, such as drafts. Nothing that the first sight of a page needs is read here.
export function stored(name, fallback) {
  try { return localStorage.getItem(name) ?? fallback; } catch { return fallback; }
}

export function store(name, value) {
  try { localStorage.setItem(name, value); } catch { /* private windows keep nothing */ }
}
