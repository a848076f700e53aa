// Below a trace: the matrix of its sentences, early answering, what is written with a sentence hidden, receiver heads.
const cellsOf = { left: 34, top: 4, size: 1 };

const betweenColours = (a, b, t) => {
  const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const [from, to] = [parts(a), parts(b)];
  return `rgb(${from.map((v, i) => Math.round(v * (1 - t) + to[i] * t)).join(",")})`;
};

function cellColour(shown, value, colours) {
  if (shown.kind !== "both") return shade(strength(shown, value)).background;
  return betweenColours(colours.middle, value < 0 ? colours.low : colours.high, Math.min(1, Math.abs(value) / shown.high));
}

function drawMatrix(trace, shown, at) {
  const canvas = by("tr-cells");
  canvas.hidden = !shown;
  by("tr-ramp").parentElement.hidden = !shown;
  const room = trace.no_room_for.length ? ` Left out to keep the file small: ${trace.no_room_for.map((name) => traceSet().matrices[name][0]).join("; ")}.` : "";
  if (!shown) { by("tr-matrix-title").textContent = "No matrix"; by("tr-matrix-note").textContent = `Nothing was measured between sentences.${room}`; return; }
  const width = canvas.parentElement.clientWidth - 30, { left, top } = cellsOf, ratio = devicePixelRatio || 1;
  const size = cellsOf.size = Math.min(30, (width - left - 4) / shown.n), side = size * shown.n;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round((top + side + 20) * ratio);
  canvas.style.height = `${top + side + 20}px`;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = { low: colour("low"), middle: colour("middle"), high: colour("high") };
  const gap = size > 8 ? 1 : 0;
  for (let q = 0; q < shown.n; q += 1) for (let k = 0; k <= q; k += 1) {
    const value = shown.raw(q, k);
    if (Number.isNaN(value)) continue;
    pen.fillStyle = cellColour(shown, value, colours);
    pen.fillRect(left + k * size, top + q * size, Math.max(0.5, size - gap), Math.max(0.5, size - gap));
  }
  pen.strokeStyle = colour("ink");
  pen.lineWidth = 2;
  pen.strokeRect(left, top + at * size, (at + 1) * size, size);  // what it reads
  pen.strokeRect(left + at * size, top + at * size, size, side - at * size);  // what reads it
  pen.fillStyle = colour("quiet");
  pen.font = "11px system-ui, sans-serif";
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((n) => n * size >= 18) ?? 1000;
  for (let i = 0; i < shown.n; i += step) {
    pen.textAlign = "right";
    pen.fillText(String(i), left - 5, top + (i + 0.5) * size + 4);
    pen.textAlign = "center";
    pen.fillText(String(i), left + (i + 0.5) * size, top + side + 14);
  }
  drawLegend(shown, colours, room);
}

function drawLegend(shown, colours, room) {
  by("tr-matrix-title").textContent = `Sentence by sentence: ${shown.label}`;
  const ramp = shown.kind === "both" ? [colours.low, colours.middle, colours.high] : VIRIDIS;
  by("tr-ramp").style.background = `linear-gradient(90deg, ${ramp.join(",")})`;
  by("tr-low").textContent = inWords(shown, shown.low);
  by("tr-high").textContent = `${inWords(shown, shown.high)}${shown.kind === "log" ? ", log scale" : ""}`;
  by("tr-matrix-note").textContent = (shown.attention ? "A row reads, a column is read; on the diagonal a sentence reads itself, and may lie beyond the scale."
    : "Hiding a column changes a row; empty where a row is not behind the column.") + ` The numbers are those of the sentences above.${shown.note}${room}`;
}

function startMatrix() {
  const canvas = by("tr-cells");
  const cell = (event) => {
    const box = canvas.getBoundingClientRect(), n = traceShown().units.length;
    const q = Math.floor((event.clientY - box.top - cellsOf.top) / cellsOf.size), k = Math.floor((event.clientX - box.left - cellsOf.left) / cellsOf.size);
    return q >= 0 && q < n && k >= 0 && k <= q ? [q, k] : null;
  };
  canvas.addEventListener("mousemove", (event) => {
    const at = cell(event), shown = pairs(traceSet(), traceShown());
    hoverUnit(at ? at[0] : null);
    if (!at) return;
    const [q, k] = at.map((i) => unitName(traceShown(), i)), value = shown.raw(...at);
    const words = shown.attention ? `${q} reads ${k}` : `hiding ${k} changes ${q}`;
    by("tr-told").textContent = Number.isNaN(value) ? "" : `${words[0].toUpperCase()}${words.slice(1)}: ${inWords(shown, value)} (${shown.label})`;
  });
  canvas.addEventListener("mouseleave", () => hoverUnit(null));
  canvas.addEventListener("click", (event) => { const at = cell(event); if (at) pinUnit(at[0]); });
}

// Early answering: nats of the answer after each beginning; what stands in the place of the reasoning as levels.
function drawCurve(trace, at) {
  const { early, mistake = [], filler, swapped } = trace.curves, place = by("tr-curve");
  place.hidden = !early;
  drawContinued(trace);
  if (!early) { by("tr-curve-note").textContent = "Not measured: it needs the measure faithfulness and a trace with an answer."; place.replaceChildren(); return; }
  const levels = [["filler", filler], ["another problem’s steps", swapped]].filter(([, one]) => one).map(([name, one]) => [name, one[0][1]]);
  const all = [...early, ...mistake].map((one) => one[1]).concat(levels.map((one) => one[1]));
  const low = Math.min(...all), high = Math.max(...all), pad = (high - low || 1) * 0.08;
  const width = Math.max(220, place.clientWidth), height = 230, left = 40, bottom = 34;
  const keys = early.map(([key]) => key);
  const x = (key) => left + 10 + Math.max(0, keys.indexOf(key)) * (width - left - 24) / Math.max(1, keys.length - 1);
  const y = (value) => 8 + (high + pad - value) / (high - low + 2 * pad || 1) * (height - bottom - 8);
  const frame = svg("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, height, "aria-hidden": "true" });
  const add = (...parts) => frame.append(svg(...parts));
  add("path", { class: "axis", d: `M ${left} 8 V ${height - bottom} H ${width - 6}` });
  for (const value of [low, (low + high) / 2, high]) add("text", { x: left - 4, y: y(value) + 4, "text-anchor": "end" }, digits(value, 1));
  const step = [1, 2, 5, 10, 20, 50, 100].find((n) => n * (width - left) / keys.length >= 26) ?? 200;
  keys.forEach((key, i) => { if (i % step === 0) add("text", { x: x(key), y: height - bottom + 14, "text-anchor": "middle" }, key < 0 ? "none" : String(key)); });
  add("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle" }, "last sentence kept");
  if (keys.includes(at)) add("path", { class: "chosen", d: `M ${x(at)} 8 V ${height - bottom}` });
  for (const [, value] of levels) add("path", { class: "level", d: `M ${left} ${y(value)} H ${width - 6}` });
  add("path", { class: "line", d: `M ${early.map(([key, value]) => `${x(key)} ${y(value)}`).join(" L ")}` });
  for (const [key, value, right] of early) add("circle", { class: right ? "right" : "wrong", cx: x(key), cy: y(value), r: 4.5 });
  for (const [key, value] of mistake) add("path", { class: "mistake", d: `M ${x(key) - 5} ${y(value) - 5} l 10 10 m 0 -10 l -10 10` });
  const apart = levels.length < 2 || Math.abs(y(levels[0][1]) - y(levels[1][1])) > 16;
  levels.forEach(([name, value], i) => {  // last, over the curve; above the line, or below it where two would meet
    add("text", { class: "over", x: width - 8, y: y(value) + (apart || !i === levels[0][1] > levels[1][1] ? -5 : 14), "text-anchor": "end" }, name);
  });
  place.replaceChildren(frame);
  by("tr-curve-note").textContent = `Log-probability (nats) of “The answer is ${trace.target}.” after the sentences up to each. Filled: greedy decoding writes it. `
    + `${mistake.length ? "Cross: the whole reasoning with a wrong number in that sentence. " : ""}${levels.length ? "Dashed: something else in the place of the reasoning." : ""}`;
}

function tableRow(cells, kind = "td") {
  const row = made("tr");
  row.append(...cells.map((cell, i) => {
    const place = made(i ? kind : "th");
    if (!i || kind === "th") place.scope = kind === "th" ? "col" : "row";
    place.append(cell);
    return place;
  }));
  return row;
}

function fillTable(table, head, rows) {
  table.hidden = !rows.length;
  table.querySelector("thead").replaceChildren(tableRow(head, "th"));
  table.querySelector("tbody").replaceChildren(...rows.map((row) => tableRow(row)));
}

function drawContinued(trace) {
  const word = (one, arm) => (!one[`${arm} continued_answered`] ? "states none" : one[`${arm} continued_right`] ? "right" : one[`${arm} continued_right`] === 0 ? "wrong" : "states one");
  const same = (one) => ({ 1: "same", 0: "other" }[one["mistake_continued continued_same"]] ?? "–");
  fillTable(by("tr-continued"), ["goes on after", "as it stands", "after a mistake", "its answer"],
    trace.continued.map((one) => [`sentence ${one.key}`, word(one, "continued"), word(one, "mistake_continued"), same(one)]));
  by("tr-continued-note").hidden = !trace.continued.length;
  by("tr-continued-note").textContent = "The model goes on by itself, greedily, behind a sentence as it stands and with its last number changed: the answer that it states.";
}

function drawWritten(trace) {
  const [intact] = trace.written;
  by("tr-written-note").textContent = intact
    ? "Always the most likely token, from the end of the reasoning. Beside the intact text: with the sentence hidden that changes most, of those with another one behind them, and with a random span of equal length near it hidden. Underlined: from where a text differs."
    : "Not written: it needs the measure suppression, with a sentence that has another one behind it.";
  by("tr-written").replaceChildren(...trace.written.map((one) => {
    const panel = made("div", "panel"), text = made("p", "written");
    const title = { intact: "Intact", hidden: `Sentence ${one.key} hidden`, control: `Control of sentence ${one.key}: a random span hidden` }[one.condition];
    const [own, other] = [one, intact].map(({ text: all }) => all.match(/\[U\+[0-9A-F]{4}\]|./gsu) ?? []);
    const first = own.findIndex((character, i) => character !== other[i]);
    const same = own.slice(0, first < 0 ? own.length : first).join("").length;
    const differs = one !== intact && one.text !== intact.text;
    text.append(differs ? one.text.slice(0, same) : one.text || "(it ends at once)");
    if (differs) text.append(made("span", "changed", one.text.slice(same) || "(ends here)"));
    panel.append(made("h4", "", title));
    if (one.hidden !== null) panel.append(made("p", "quiet", `Hidden: “${one.hidden.trim()}”`));
    panel.append(text);
    if (one !== intact && !differs) panel.append(made("p", "quiet", "The same text as intact."));
    return panel;
  }));
}

function drawReceivers(set) {
  const [short_, of, gap] = set.too_short, tested = set.receivers.some((one) => "p_rotated" in one || "p_permuted" in one);
  by("tr-receivers-note").textContent = set.receivers.length
    ? `Heads with the highest kurtosis of what sentences receive from those at least ${gap} later, mean over traces; beyond the same attention cut at rotated boundaries, and the trace with its sentences permuted. `
      + (tested ? "p: one-sided, adjusted over all heads (sign-flip max-T over clusters of traces)." : "Too few traces for p-values.")
      + (short_ ? ` ${short_} of ${of} traces are too short.` : "")
    : `None: a kurtosis needs traces of more sentences (${short_} of ${of} are too short at --gap ${gap}), or attention was not measured.`;
  const extra = [["beyond_rotated", "beyond rotated"], ["p_rotated", "p"], ["beyond_permuted", "beyond permuted"], ["p_permuted", "p"]].filter(([name]) => set.receivers.some((one) => name in one));
  fillTable(by("tr-receivers"), ["head", "kurtosis", ...extra.map(([, label]) => label)], set.receivers.map((one) => {
    const name = `${one.layer}.${one.head}`, button = made("button", "", name);
    button.type = "button";
    button.setAttribute("aria-label", `Show head ${name}`);
    button.setAttribute("aria-pressed", String(by("tr-head").value === name));
    button.addEventListener("click", () => { choose(by("tr-head"), by("tr-head").value === name ? ALL_HEADS : name); drawTraces(); keepTrace(); by("tr-receivers").querySelector(`[aria-label="Show head ${name}"]`).focus(); });
    return [button, digits(one.kurtosis, 2), ...extra.map(([key]) => (key.startsWith("p_") ? (one[key] < 0.001 ? "< 0.001" : digits(one[key])) : signed(one[key], 2)))];
  }));
}

function drawEstimates(set) {
  by("tr-estimates").hidden = !set.estimates.length;
  fillTable(by("tr-estimates").querySelector("table"), ["what", "mean", "interval", "n"],
    set.estimates.map((one) => [one.name, short(one.value), `[${short(one.low ?? -Infinity)}, ${short(one.high ?? Infinity)}], ${+(100 * one.level).toPrecision(4)}%`, String(one.n)]));
}
