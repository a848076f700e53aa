// The pretrained explorer: maps of heads, differences between conditions, problems of one head.
const pretrained = { head: [0, 0] };

// The values of one metric, scope and condition as one Float32Array for each problem; at the length of `against`, if
// that is a shorter text and the metric or the scope asks for equal lengths.
function problems(set, metric, scope, condition, against) {
  const heads = set.layers * set.heads, units = set.units.length;
  const m = set.metrics.findIndex(([name]) => name === metric);
  const own = set.matched.find((of) => of.metric === m && set.scopes[of.scope] === scope && of.condition === condition && of.against === against);
  if (own) return range(units).map((u) => column(own.values).subarray(u * heads, (u + 1) * heads));
  const s = set.scopes.indexOf(scope), c = set.conditions.indexOf(condition);
  const start = (s * set.conditions.length + c) * units * heads;
  const all = column(set.values[m]);
  return range(units).map((u) => all.subarray(start + u * heads, start + (u + 1) * heads));
}

// A metric of the menu: what it is called, with its unit, and the scale on which its values are shown.
function metricOf(set, metric) {
  const [, label, unit, low, high, sparser] = set.metrics.find(([name]) => name === metric);
  return { label, unit, low, high, sparser, title: unit ? `${label} (${unit})` : label };
}

// The mean over problems that have both, of first - second (or of first alone), for every head.
function averaged(first, second) {
  const sums = new Float32Array(first[0].length), counts = new Float32Array(first[0].length);
  first.forEach((values, u) => values.forEach((value, h) => {
    const number = second ? value - second[u][h] : value;
    if (!Number.isNaN(number)) { sums[h] += number; counts[h] += 1; }
  }));
  return sums.map((sum, h) => (counts[h] ? sum / counts[h] : NaN));
}

// The test of a pair made when the report was built, in either order; `sign` is -1 for the other order.
function testOf(set, metric, scope, first, second) {
  const m = set.metrics.findIndex(([name]) => name === metric), s = set.scopes.indexOf(scope);
  const found = set.tests.find((t) => t.metric === m && t.scope === s
    && ((t.pair[0] === first && t.pair[1] === second) || (t.pair[0] === second && t.pair[1] === first)));
  return found && { ...found, sign: found.pair[0] === first ? 1 : -1 };
}

function differenceOf(set, metric, scope, first, second) {
  const values = averaged(problems(set, metric, scope, first, second), problems(set, metric, scope, second, first));
  const test = testOf(set, metric, scope, first, second);
  const p = test ? column(test.p) : null;
  const marks = [];
  values.forEach((value, h) => {
    if (p && p[h] < 0.05) marks.push([Math.floor(h / set.heads), h % set.heads, value < 0 ? "down" : "up"]);
  });
  return { values, test, p, marks, largest: Math.max(...values.map(Math.abs).filter((v) => !Number.isNaN(v)), 1e-4) };
}

function differenceNote({ test, marks, values }) {
  if (!test) return "This pair has no test: only pairs with no_cot, and cot against its controls, were tested, where both have equally many tokens if that counts.";
  const lower = marks.filter((mark) => mark[2] === "down").length;
  const ends = test.mean.map((v) => v * test.sign);
  if (test.sign < 0) [ends[1], ends[2]] = [ends[2], ends[1]];
  const units = test.clusters < test.n ? `${test.n} problems of ${test.clusters} templates` : `${test.n} problems`;
  const caution = test.smallest_p >= 0.05 ? " Too few problems for any head to be significant." : "";
  return `Mean over heads ${signed(ends[0])} [${signed(ends[1])}, ${signed(ends[2])}] (${+(100 * test.level).toPrecision(4)}% interval, ${units}). Significantly lower ▼ in `
    + `${lower} and higher ▲ in ${marks.length - lower} of ${values.filter((value) => !Number.isNaN(value)).length} heads (paired sign-flip max-T, p < 0.05 adjusted over heads).${caution}`;
}

function drawDifference(id, set, difference, largest, label) {
  headMap(id, set, difference.values, {
    low: -largest, high: largest, colours: [colour("low"), colour("middle"), colour("high")], title: "",
    marks: difference.marks, chosen: pretrained.head, pick: clickHead, hover: label,
  });
}

function pickHead(layer, head) {
  pretrained.head = [layer, head];
  by("pt-layer").value = String(layer);
  by("pt-head").value = String(head);
  drawPretrained();
}

function clickHead(layer, head) {
  if (!currentSet().attending.includes(layer)) return;
  pickHead(layer, head);
  keepHead();
}

function drawProblems(set, metric, scope, first, second) {
  const [layer, head] = pretrained.head;
  const at = layer * set.heads + head;
  const pick = (condition, against) => problems(set, metric, scope, condition, against).map((values) => values[at]);
  const a = pick(first, second), b = pick(second, first);
  const both = range(set.units.length).filter((u) => !Number.isNaN(a[u]) && !Number.isNaN(b[u]));
  const names = set.units.map(plain);
  const lines = { x: [], y: [] };
  for (const u of both) { lines.x.push(0.28, 0.72, null); lines.y.push(a[u], b[u], null); }
  const box = (x, values, name, line) => ({
    type: "box", name: plain(name), x: values.map(() => x), y: values, boxpoints: false, width: 0.22, hoverinfo: "skip",
    line: { color: line, width: 2 }, fillcolor: "rgba(0,0,0,0)",
  });
  const points = (x, values, marker, symbol) => ({
    type: "scatter", mode: "markers", x: both.map(() => x), y: both.map((u) => values[u]), text: both.map((u) => names[u]),
    hovertemplate: "%{text}: %{y:.3f}<extra></extra>", marker: { color: marker, size: 7, symbol, line: { width: 1, color: colour("panel") } },
  });
  const single = first === second;
  const left = [box(0.05, both.map((u) => a[u]), first, colour("low")), points(0.28, a, colour("low"), "circle")];
  draw("pt-problems", single ? left : [
    { type: "scatter", mode: "lines", ...lines, line: { color: colour("quiet"), width: 1 }, opacity: 0.45, hoverinfo: "skip" },
    ...left, box(0.95, both.map((u) => b[u]), second, colour("high")), points(0.72, b, colour("high"), "square"),
  ], {
    height: mapHeight(set.layers),
    xaxis: axis("", { tickvals: [0.16, 0.84], ticktext: [plain(first), single ? "" : plain(second)], range: [-0.15, 1.15], showgrid: false, ticks: "" }),
    yaxis: axis(plain(metricOf(set, metric).title)),
  });
  by("pt-problems-title").textContent = `Layer ${layer}, head ${head}: problem by problem`;
  if (!both.length) { by("pt-problems-note").textContent = "No problem was measured under both conditions."; return; }
  if (single) { by("pt-problems-note").textContent = `${digits(mean(a))} on average over ${both.length} problems.`; return; }
  const gaps = both.map((u) => a[u] - b[u]);
  const { p } = differenceOf(set, metric, scope, first, second);
  const adjusted = p ? `, adjusted p ${p[at] < 0.001 ? "< 0.001" : "= " + digits(p[at])}` : "";
  by("pt-problems-note").textContent = `${first} − ${second}: ${signed(mean(gaps))} on average${adjusted}; `
    + `lower in ${gaps.filter((gap) => gap < 0).length} of ${both.length} problems. A line joins one problem.`;
}

// As the board has it, whatever tokens are chosen above: published over all tokens, controlled over the answer's.
function drawLength(set, chosen, first, second) {
  const scopeOr = (wanted) => (set.scopes.includes(wanted) ? wanted : chosen);
  const [all, scope] = [scopeOr(set.start.scope), scopeOr(set.controlled)];
  const has = (name) => set.metrics.some(([known]) => known === name);
  by("pt-length").hidden = !(has("min") && has("length_matched_min")) || first === second;
  if (by("pt-length").hidden) return;
  const published = differenceOf(set, "min", all, first, second);
  const controlled = differenceOf(set, "length_matched_min", scope, first, second);
  const largest = Math.max(published.largest, controlled.largest);
  drawDifference("pt-published", set, published, largest, "difference");
  drawDifference("pt-controlled", set, controlled, largest, "difference");
  by("pt-published-note").textContent = differenceNote(published);
  by("pt-controlled-note").textContent = differenceNote(controlled);
  by("pt-published-title").textContent = `As published: plain minimum, ${tokensOf(all)}`;
  by("pt-controlled-title").textContent = `Controlled: length-matched minimum, ${tokensOf(scope)}`;
  const length = (condition) => set.lengths[set.scopes.indexOf(scope)][set.conditions.indexOf(condition)];
  by("pt-length-text").textContent = `The minimum over more tokens is lower even if nothing else changes. Here ${first} has `
    + `${length(first)} tokens on average and ${second} ${length(second)} (${tokensOf(scope)}). Length-matched, each minimum is its `
    + `expectation over equally many tokens. Both maps show ${first} − ${second} on one colour scale.`;
}

const tokensOf = (scope) => currentSet().scope_labels[currentSet().scopes.indexOf(scope)];

// The address of what is shown.
function headAddress() {
  const [layer, head] = pretrained.head;
  const [metric, scope, first, second] = ["metric", "scope", "first", "second"].map((id) => by(`pt-${id}`).value);
  return addressOf("pretrained", { model: currentSet().name, layer, head, metric, tokens: scope, condition: first, against: second });
}

// Shows what an address names; what it leaves out stays as it is.
function showHeadView(view) {
  const wanted = data.pretrained.findIndex((set) => set.name === view.get("model"));
  if (wanted >= 0 && by("pt-model").value !== String(wanted)) {
    by("pt-model").value = String(wanted);
    choosePretrained();
  }
  const places = { metric: "metric", scope: "tokens", first: "condition", second: "against", layer: "layer", head: "head" };
  for (const [id, name] of Object.entries(places)) choose(by(`pt-${id}`), view.get(name));
  followMetric();
  pickHead(Number(by("pt-layer").value), Number(by("pt-head").value));
}

function drawPretrained() {
  const set = data.pretrained[Number(by("pt-model").value)];
  const [metric, scope] = [by("pt-metric").value, by("pt-scope").value];
  const [first, second] = [by("pt-first").value, by("pt-second").value];
  const { label, unit, low, high, sparser, title } = metricOf(set, metric);
  const values = averaged(problems(set, metric, scope, first, second));
  const top = high === null ? Math.max(...values.filter((v) => !Number.isNaN(v)), low + 1e-4) : high;
  by("pt-map-title").textContent = `${first}: ${title}`;
  by("pt-metric-note").textContent = `${sparser === "lower" ? "Lower" : "Higher"} values mean attention on fewer tokens.`;
  headMap("pt-map", set, values, {
    low, high: top, colours: VIRIDIS, title: plain(unit), chosen: pretrained.head, pick: clickHead, hover: plain(label),
  });
  by("pt-difference-title").textContent = `${first} − ${second}: ${title}`;
  by("pt-difference").hidden = first === second;
  if (first === second) {
    by("pt-difference-note").textContent = set.conditions.length > 1 ? "Choose two different conditions." : "Only one condition was measured.";
  } else {
    const difference = differenceOf(set, metric, scope, first, second);
    drawDifference("pt-difference", set, difference, difference.largest, "difference");
    by("pt-difference-note").textContent = differenceNote(difference);
  }
  drawProblems(set, metric, scope, first, second);
  drawLength(set, scope, first, second);
  drawTokens(set);
  by("pt-link").href = headAddress();
}

function choosePretrained() {
  const set = data.pretrained[Number(by("pt-model").value)];
  fill(by("pt-metric"), set.metrics, set.start.metric);
  fill(by("pt-scope"), set.scopes.map((name) => [name, tokensOf(name)]), set.start.scope);
  fill(by("pt-first"), set.conditions.map((name) => [name, name]), set.start.first);
  fill(by("pt-second"), set.conditions.map((name) => [name, name]), set.start.second);
  if (by("pt-first").value === by("pt-second").value && set.conditions.length > 1) by("pt-second").value = set.conditions[1];
  fill(by("pt-layer"), set.attending.map((l) => [l, l]), set.attending[0]);
  fill(by("pt-head"), range(set.heads).map((h) => [h, h]), 0);
  const [layer, head] = mostChanged(set);
  chooseTexts(set);
  pickHead(layer, head);
}

// The head to begin with: the one that differs most between the first two conditions shown.
function mostChanged(set) {
  const { values } = differenceOf(set, by("pt-metric").value, by("pt-scope").value, by("pt-first").value, by("pt-second").value);
  const best = values.reduce((found, value, h) => (Math.abs(value) > Math.abs(values[found]) ? h : found), set.attending[0] * set.heads);
  return [Math.floor(best / set.heads), best % set.heads];
}

const keepHead = () => history.replaceState(null, "", headAddress());

function startPretrained() {
  fill(by("pt-model"), data.pretrained.map((set, i) => [i, set.name]), 0);
  startTokens();  // before the below: what is drawn follows the metric
  by("pt-model").addEventListener("change", choosePretrained);
  for (const id of ["pt-metric", "pt-scope", "pt-first", "pt-second"]) by(id).addEventListener("change", drawPretrained);
  for (const id of ["pt-layer", "pt-head"]) {
    by(id).addEventListener("change", () => pickHead(Number(by("pt-layer").value), Number(by("pt-head").value)));
  }
  by("pt-controls").addEventListener("change", keepHead);  // after the above: what was chosen is the address
  views.pretrained = showHeadView;
  choosePretrained();
}
