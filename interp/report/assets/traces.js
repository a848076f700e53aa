// Traces: every sentence with its bars; what the current one reads and what reads it, as arcs; an address for each view.
const traces = { pinned: 0, hovered: null };
const traceSet = () => data.traces[Number(by("tr-run").value)];
const traceShown = () => traceSet().traces[Number(by("tr-trace").value)];
const currentUnit = () => traces.hovered ?? traces.pinned;
const ALL_HEADS = "all";

function made(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// A unit's name: sentences have the number that rows and passages.jsonl have for them.
const unitName = (trace, i) => (trace.units[i][0] === "reasoning" ? `sentence ${i}` : `the ${trace.units[i][0]}`);

const headNumber = (set) => {
  const [layer, head] = by("tr-head").value.split(".").map(Number);
  return by("tr-head").value === ALL_HEADS ? -1 : layer * set.heads + head;
};

// What is shown as arcs and matrix: at(reading, read), its scale, and why it is not of the chosen head if so.
function pairs(set, trace) {
  const name = by("tr-matrix").value, packed = trace.matrices[name], n = trace.units.length, head = headNumber(set);
  if (!packed) return null;
  const [label, kind] = set.matrices[name];
  const kept = trace.by_head, place = kept ? kept.heads.indexOf(head) : -1;
  const ofHead = name === "attention_mean" && place >= 0;
  const values = ofHead ? column(kept.values) : column(packed);
  const start = place * n * (n + 1) / 2;
  const raw = (q, k) => (k > q ? NaN : ofHead ? values[start + q * (q + 1) / 2 + k] : values[q * n + k]);
  const note = head < 0 || ofHead ? ""
    : !name.startsWith("attention") ? " Sentences were hidden in the heads that the run names, so this is not of the chosen head."
      : name !== "attention_mean" ? " Only attention per token read is kept of single heads: this is the mean over all heads."
        : !kept ? " Every head's matrix is kept of the first traces only (--keep): this is the mean over all heads."
          : " This head's matrix was left out to keep the file small: this is the mean over all heads.";
  const heads = !name.startsWith("attention") ? "" : ofHead ? `, layer ${Math.floor(head / set.heads)}, head ${head % set.heads}` : ", mean over all heads";
  return { name, label: label + heads, kind, n, raw, note, attention: name.startsWith("attention"), ...ends(n, raw, kind) };
}

// The ends of the colour scale, from pairs of different units: what a unit reads of itself would hide the rest.
function ends(n, raw, kind) {
  let low = Infinity, high = -Infinity;
  for (let q = 0; q < n; q += 1) for (let k = 0; k < q; k += 1) {
    const value = raw(q, k);
    if (!Number.isNaN(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  }
  if (low > high) return { low: 0, high: 1 };
  const largest = Math.max(Math.abs(low), Math.abs(high), 1e-9);
  return kind === "both" ? { low: -largest, high: largest } : { low, high: Math.max(high, low + 1e-9) };
}

// A value as a share of its scale, and in words.
const strength = (shown, value) => (shown.kind === "both" ? Math.abs(value) / shown.high : Math.min(1, Math.max(0, (value - shown.low) / (shown.high - shown.low))));
const short = (value) => (value === 0 ? "0" : !Number.isFinite(value) ? (value < 0 ? "-∞" : "∞") : Math.abs(value) >= 0.001 && Math.abs(value) < 1e4 ? String(+value.toPrecision(3)) : value.toExponential(1)).replace("-", "−");
function inWords(shown, value) {
  if (shown.kind !== "log") return signed(value, 2);
  const smallest = traceSet().smallest, plainValue = 10 ** value;
  return plainValue <= smallest * 1.001 ? `≤ ${short(smallest)}` : short(plainValue);
}

// The bars of the trace, by measure: label and one value for each unit.
function bars(set, trace) {
  const head = headNumber(set);
  return Object.entries(trace.bars).map(([name, values]) => {
    const [label] = set.measures[name];
    if (name !== "attention" || head < 0 || !trace.vertical) return { name, label, values };
    const all = column(trace.vertical), n = trace.units.length;
    const own = range(n).map((i) => all[head * n + i]).map((value) => (Number.isNaN(value) ? null : 10 ** value));
    return { name, label: `${label}, head ${by("tr-head").value}`, values: own };
  });
}

function lengthBar(value, largest, two) {
  const frame = made("span", two ? "length two" : "length"), filled = made("span", value < 0 ? "less" : "more");
  frame.ariaHidden = "true";
  filled.style.width = `${(two ? 50 : 100) * Math.min(1, Math.abs(value) / largest)}%`;
  frame.append(filled);
  return frame;
}

function drawSentences(set, trace) {
  const columns = bars(set, trace);
  by("tr-view").style.setProperty("--bars", String(columns.length));
  by("tr-columns").replaceChildren(made("span"), made("span", "", "sentence"), ...columns.map(({ label }) => made("span", "", label)), made("span", "link", "arcs"));
  for (const one of columns) {
    one.largest = Math.max(...one.values.map((v) => Math.abs(v ?? 0)), 1e-12);
    one.two = one.values.some((v) => v < 0);
  }
  by("tr-sentences").replaceChildren(...trace.units.map(([span, text], i) => {
    const line = made("li", "unit");
    line.id = `tr-unit-${i}`;
    line.setAttribute("role", "option");
    const said = made("span", "said");
    if (span !== "reasoning") said.append(made("span", "span", span));
    said.append(text);
    const all = made("span", "all");
    for (const { label, values, largest, two } of columns) {
      const cell = made("span", "measured");
      if (values[i] !== null) cell.append(made("span", "name", label), lengthBar(values[i], largest, two), short(values[i]));
      all.append(cell);
    }
    line.append(made("span", "place", String(i)), said, all, made("span", "link"));
    return line;
  }));
  by("tr-measures").replaceChildren(...columns.flatMap(({ name, label }) => [made("dt", "", label), made("dd", "", set.measures[name][1])]));
}

// The current sentence: its line, its arcs, what is said of it.
function drawCurrent(set, trace) {
  const at = currentUnit(), shown = pairs(set, trace), lines = [...by("tr-sentences").children];
  by("tr-sentences").setAttribute("aria-activedescendant", `tr-unit-${traces.pinned}`);
  lines.forEach((line, i) => {
    line.classList.toggle("current", i === at);
    line.classList.toggle("pinned", i === traces.pinned);
    line.setAttribute("aria-selected", String(i === traces.pinned));
    const value = !shown || i === at ? NaN : i < at ? shown.raw(at, i) : shown.raw(i, at);
    const link = line.querySelector(".link");
    link.className = `link ${i < at ? "reads" : "read"}`;
    link.textContent = Number.isNaN(value) ? "" : `${i < at ? "▲" : "▼"} ${inWords(shown, value)}`;
  });
  drawArcs(shown, at, lines);
  by("tr-told").textContent = told(trace, shown, at);
  drawMatrix(trace, shown, at);
  drawCurve(trace, at);
  by("tr-link").href = traceAddress();
}

function told(trace, shown, at) {
  const name = unitName(trace, at), start = name[0].toUpperCase() + name.slice(1);
  if (!shown) return `${start}: no matrix of this trace is in the page.`;
  const most = (values) => values.filter(([, v]) => !Number.isNaN(v)).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([i, v]) => `${unitName(trace, i)} (${inWords(shown, v)})`).join(", ") || "none";
  const before = most(range(at).map((k) => [k, shown.raw(at, k)]));
  const behind = most(range(shown.n - at - 1).map((i) => [at + 1 + i, shown.raw(at + 1 + i, at)]));
  return shown.attention ? `${start} reads most: ${before}. It is read most by: ${behind}. (${shown.label})`
    : `${start} is changed most by hiding: ${before}. Hiding it changes most: ${behind}. (${shown.label})`;
}

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function drawArcs(shown, at, lines) {
  const frame = by("tr-arcs"), width = frame.clientWidth, height = by("tr-sentences").offsetHeight;
  frame.setAttribute("height", height);
  frame.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const middle = (i) => lines[i].offsetTop + lines[i].offsetHeight / 2, right = width - 4;
  const drawn = !shown ? [] : range(lines.length).filter((i) => i !== at).map((i) => {
    const value = i < at ? shown.raw(at, i) : shown.raw(i, at);
    if (Number.isNaN(value)) return null;
    const share = strength(shown, value), away = Math.min(1, 0.25 + Math.abs(i - at) / Math.max(4, lines.length)) * right * 1.3;
    return svg("path", {
      class: i < at ? "reads" : "read", d: `M ${right} ${middle(at)} C ${right - away} ${middle(at)}, ${right - away} ${middle(i)}, ${right} ${middle(i)}`,
      "stroke-width": (0.6 + 5 * share ** 1.5).toFixed(2), opacity: (0.2 + 0.8 * share).toFixed(2), ...(value < 0 && shown.kind === "both" ? { "stroke-dasharray": "3 5" } : {}),
    });
  });
  frame.replaceChildren(...drawn.filter(Boolean));
}

function drawTraces() {
  const set = traceSet(), trace = traceShown();
  traces.pinned = Math.min(traces.pinned, trace.units.length - 1);
  traces.hovered = null;
  drawSentences(set, trace);
  drawCurrent(set, trace);
  drawWritten(trace);
  drawReceivers(set);
}

function pinUnit(i) {
  traces.pinned = Math.min(traceShown().units.length - 1, Math.max(0, i));
  traces.hovered = null;
  drawCurrent(traceSet(), traceShown());
  const line = by(`tr-unit-${traces.pinned}`), box = by("tr-units");
  if (line.offsetTop < box.scrollTop) box.scrollTop = line.offsetTop;
  if (line.offsetTop + line.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = line.offsetTop + line.offsetHeight - box.clientHeight;
  keepTrace();
}

function hoverUnit(i) {
  if (traces.hovered === i) return;
  traces.hovered = i;
  drawCurrent(traceSet(), traceShown());
}

const traceAddress = () => addressOf("traces", {
  run: traceSet().name, trace: traceShown().id, sentence: traces.pinned, head: by("tr-head").value, matrix: by("tr-matrix").value,
});
const keepTrace = () => history.replaceState(null, "", traceAddress());

// Shows what an address names; what it leaves out, or there is not, stays as it is.
function showTraceView(view) {
  const named = (list, name) => list.findIndex((one) => name !== null && one === name);
  const run = named(data.traces.map((set) => set.name), view.get("run"));
  if (run >= 0 && by("tr-run").value !== String(run)) { by("tr-run").value = String(run); chooseTraceRun(); }
  const trace = named(traceSet().traces.map((one) => one.id), view.get("trace"));
  if (trace >= 0) { by("tr-trace").value = String(trace); chooseTrace(); }
  choose(by("tr-head"), view.get("head"));
  choose(by("tr-matrix"), view.get("matrix"));
  const sentence = view.get("sentence");
  if (/^\d+$/.test(sentence ?? "") && Number(sentence) < traceShown().units.length) traces.pinned = Number(sentence);
  drawTraces();
}

function chooseTraceRun() {
  const set = traceSet();
  fill(by("tr-trace"), set.traces.map((trace, i) => [i, trace.id]), 0);
  const first = set.receivers.map(({ layer, head }) => `${layer}.${head}`);
  const rest = range(set.layers * set.heads).map((h) => `${Math.floor(h / set.heads)}.${h % set.heads}`).filter((name) => !first.includes(name));
  fill(by("tr-head"), [[ALL_HEADS, "all heads, mean"], ...first.map((name, i) => [name, `head ${name} (receiver head ${i + 1})`]), ...rest.map((name) => [name, `head ${name}`])], ALL_HEADS);
  by("tr-left-out").hidden = set.left_out === 0;
  by("tr-left-out").textContent = `${set.left_out} more traces were left out to keep the file small; their rows are in rows.parquet.`;
  drawEstimates(set);
  chooseTrace();
}

// A trace begins with the sentence that the first measure of it says matters most.
function chooseTrace() {
  const set = traceSet(), trace = traceShown();
  fill(by("tr-matrix"), Object.entries(set.matrices).filter(([name]) => trace.matrices[name]).map(([name, [label]]) => [name, label]), "attention_mean");
  const values = Object.values(trace.bars)[0] ?? [];
  const best = values.reduce((found, value, i) => (value !== null && (found < 0 || value > values[found]) ? i : found), -1);
  traces.pinned = best >= 0 ? best : trace.reasoning[0];
}

function startTraces() {
  fill(by("tr-run"), data.traces.map((set, i) => [i, set.name]), 0);
  by("tr-run").addEventListener("change", chooseTraceRun);
  by("tr-trace").addEventListener("change", chooseTrace);
  by("tr-controls").addEventListener("change", () => { drawTraces(); keepTrace(); });  // after the above
  const list = by("tr-sentences"), place = (event) => event.target.closest("li.unit");
  list.addEventListener("mouseover", (event) => { if (place(event)) hoverUnit(Number(place(event).id.slice(8))); });
  list.addEventListener("mouseleave", () => hoverUnit(null));
  list.addEventListener("click", (event) => { if (place(event)) pinUnit(Number(place(event).id.slice(8))); });
  list.addEventListener("keydown", (event) => {
    const to = { ArrowDown: traces.pinned + 1, ArrowUp: traces.pinned - 1, Home: 0, End: Infinity }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    pinUnit(to);
  });
  startMatrix();
  new ResizeObserver(() => drawCurrent(traceSet(), traceShown())).observe(by("tr-view"));
  views.traces = showTraceView;
  chooseTraceRun();
  drawTraces();
}
