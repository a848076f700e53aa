// The closing sentence of two texts, token by token: the same tokens after other texts, in any statistic that was kept.
const statisticOf = (set) => set.tokens.statistics.find(([name]) => name === by("pt-closing-statistic").value);

function chooseStatistics(set) {
  const menu = set.tokens.statistics.map(([name, label, unit]) => [name, unit ? `${label} (${unit})` : label]);
  fill(by("pt-closing-statistic"), menu, statisticOfMetric(set));
}

// What cannot be compared, in one line; empty if the two texts end in the same tokens.
function whyNotAligned(set, first, second) {
  if (textsOf(set).length < 2) return "Only one text of this problem was kept: there is nothing to compare.";
  if (first === second) return "Choose two different texts to compare their closing sentences.";
  const without = [first, second].filter((text) => !text.closing).map((text) => text.condition);
  if (without.length) {
    return `No closing sentence in common: ${without.join(" and ")} ${without.length > 1 ? "have" : "has"} none here `
      + "(another ending, a problem that was set aside, or a run that did not keep it).";
  }
  const [a, b] = [first, second].map((text) => JSON.stringify(text.tokens.slice(-text.closing)));
  return a === b ? "" : "No closing sentence in common: the two texts do not end in the same tokens.";
}

// The values of a closing sentence, of the chosen head or on average over heads.
function closingValues(set, text, statistic) {
  const all = column(text.sentence[statistic]), n = text.closing;
  const [layer, head] = pretrained.head;
  const of = (h) => all.subarray(h * n, (h + 1) * n);
  if (by("pt-closing-heads").value === "one") return Array.from(of(layer * set.heads + head));
  const heads = range(set.layers * set.heads).map(of);
  return range(n).map((i) => mean(heads.map((values) => values[i]).filter((value) => !Number.isNaN(value))));
}

function drawClosing(set) {
  const [first, second] = textViews.map((view) => chosenText(set, view));
  const why = whyNotAligned(set, first, second);
  for (const id of ["pt-closing", "pt-closing-controls"]) by(id).hidden = Boolean(why);
  if (why) { by("pt-closing-about").textContent = why; return; }
  const [layer, head] = pretrained.head;
  const [name, label, unit, sparser] = statisticOf(set);
  const values = [first, second].map((text) => closingValues(set, text, name));
  const tokens = first.tokens.slice(-first.closing);
  const heads = by("pt-closing-heads").value === "one" ? `layer ${layer}, head ${head}` : "mean over all heads";
  const [here, there] = [first, second].map((text) => `at token ${text.first + text.tokens.length - text.closing} of ${text.condition}`);
  by("pt-closing-about").textContent = `The same ${tokens.length} tokens, beginning ${here} and ${there}: ${unit ? `${label} (${unit})` : label}, ${heads}. `
    + `${sparser === "lower" ? "Lower" : "Higher"} values mean attention on fewer tokens; the difference is ${first.condition} − ${second.condition}. One problem: no test, see the maps above.`;
  by("pt-closing-head").replaceChildren(closingRow("th", ["Token", ...[first, second].map((text) => breakable(text.condition)), "difference"]));
  const rows = tokens.map((token, i) => [JSON.stringify(token), values[0][i], values[1][i]]);
  const means = values.map((of) => mean(of.filter((value) => !Number.isNaN(value))));
  const gaps = rows.map(([, a, b]) => Math.abs(a - b)).filter((gap) => !Number.isNaN(gap));
  const largest = Math.max(...gaps, 1e-9);
  by("pt-closing-rows").replaceChildren(...rows.map((row) => closingValuesRow(row, largest)));
  by("pt-closing-mean").replaceChildren(closingValuesRow(["mean over tokens", ...means], largest));
}

// A name that may be broken after each underscore.
function breakable(name) {
  const text = document.createElement("span");
  text.append(...name.split(/(?<=_)/).flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
  return text;
}

function closingRow(kind, cells) {
  const row = document.createElement("tr");
  row.append(...cells.map((cell, i) => {
    const place = document.createElement(i ? kind : "th");
    if (place.tagName === "TH") place.scope = kind === "th" ? "col" : "row";
    place.append(cell);
    return place;
  }));
  return row;
}

// Numbers, and the difference once more as a bar: to the left and blue if the first text has less, else to the right and orange.
function closingValuesRow([token, a, b], largest) {
  const row = closingRow("td", [token, digits(a), digits(b), signed(a - b)]);
  row.lastChild.append(differenceBar(a - b, largest));
  return row;
}

function differenceBar(difference, largest) {
  const frame = document.createElement("span"), filled = document.createElement("span");
  frame.className = "gap";
  frame.ariaHidden = "true";
  filled.className = difference < 0 ? "less" : "more";
  filled.style.width = `${Number.isNaN(difference) ? 0 : 50 * Math.min(1, Math.abs(difference) / largest)}%`;
  frame.append(filled);
  return frame;
}

// The statistic of the metric chosen above is the one shown here, if it was kept, until another is chosen here.
const statisticOfMetric = (set) => set.metrics.find(([name]) => name === by("pt-metric").value).at(-1);
const followMetric = () => choose(by("pt-closing-statistic"), statisticOfMetric(currentSet()));

function startClosing() {
  by("pt-metric").addEventListener("change", followMetric);
  for (const id of ["pt-closing-statistic", "pt-closing-heads"]) by(id).addEventListener("change", () => drawClosing(currentSet()));
}
