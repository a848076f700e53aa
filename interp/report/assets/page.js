// The page itself: data decoding, small DOM helpers, light and dark.
const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);

// A packed column as a Float32Array; missing values are NaN.
function column(packed) {
  if (packed.decoded) return packed.decoded;
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  const raw = packed.dtype === "u1" ? bytes
    : packed.dtype === "u2" ? new Uint16Array(bytes.buffer) : new Float32Array(bytes.buffer);
  const missing = packed.dtype === "u1" ? 255 : packed.dtype === "u2" ? 65535 : NaN;
  packed.decoded = new Float32Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) packed.decoded[i] = raw[i] === missing ? NaN : packed.offset + packed.step * raw[i];
  packed.data = "";
  return packed.decoded;
}

// Fills a select with [value, label] pairs and keeps the choice where it still exists.
function fill(select, pairs, preferred) {
  const earlier = select.value;
  select.replaceChildren(...pairs.map(([value, label]) => {
    const option = document.createElement("option");
    option.value = String(value);
    option.textContent = label;
    return option;
  }));
  const values = pairs.map(([value]) => String(value));
  const wanted = [earlier, String(preferred), values[0]].find((value) => values.includes(value));
  if (wanted !== undefined) select.value = wanted;
  select.disabled = pairs.length < 2;
}

// What an explorer shows, as an address: `views` holds what each explorer does with such an address.
const views = {};

// Shows the view that follows the question mark of an address: #pretrained?layer=3&head=5.
function followView() {
  const [id, view] = location.hash.slice(1).split("?");
  if (view) views[id]?.(new URLSearchParams(view));
}

// Chooses an option if there is such a one.
function choose(select, value) {
  if ([...select.options].some((option) => option.value === String(value))) select.value = String(value);
}

const addressOf = (id, view) => `#${id}?${new URLSearchParams(view)}`;
const range = (n) => Array.from({ length: n }, (_, i) => i);
const digits = (value, n = 3) => (Number.isFinite(value) ? value.toFixed(n).replace("-", "−") : "–");
const signed = (value, n = 3) => (value > 0 ? "+" : "") + digits(value, n);
const mean = (values) => values.reduce((sum, v) => sum + v, 0) / values.length;

// Light or dark: the system's choice until the reader makes one, which is kept where the browser lets a page keep things.
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const theme = { chosen: null };

const isDark = () => (theme.chosen ? theme.chosen === "dark" : systemDark.matches);

function showTheme() {
  const media = { dark: "screen", light: "not all" };
  by("dark").media = theme.chosen ? media[theme.chosen] : "screen and (prefers-color-scheme: dark)";
  by("theme").textContent = isDark() ? "Light theme" : "Dark theme";
}

function startTheme(changed) {
  try { theme.chosen = localStorage.getItem("cotlens-theme"); } catch { theme.chosen = null; }
  if (theme.chosen !== "dark" && theme.chosen !== "light") theme.chosen = null;
  by("theme").addEventListener("click", () => {
    theme.chosen = isDark() ? "light" : "dark";
    try { localStorage.setItem("cotlens-theme", theme.chosen); } catch { /* it lasts until the page is closed */ }
    showTheme();
    changed();
  });
  systemDark.addEventListener("change", () => { showTheme(); changed(); });
  showTheme();
}
