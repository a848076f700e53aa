// The toy explorer: attention beside the dependency mask, training curves, a slider over checkpoints.
const toy = { timer: null };

const currentRun = () => data.toy[Number(by("toy-run").value)];

// Moments of training the slider stops at: recorded attention maps of this input, or else evaluations.
function checkpoints(run) {
  const stops = run.maps.filter(([scope]) => scope === by("toy-scope").value).map(([, stop]) => stop);
  return stops.length > 1 || !run.curves.at.length ? stops : run.curves.at;
}

const moment = (run, stop) => `${stop.toLocaleString("en")} ${run.counted}`;

function mapAt(run, stop) {
  const known = run.maps.map(([scope, at], i) => ({ scope, at, i })).filter((map) => map.scope === by("toy-scope").value);
  return known.reduce((best, map) => (!best || Math.abs(map.at - stop) < Math.abs(best.at - stop) ? map : best), null);
}

function drawMap(run, stop) {
  const map = mapAt(run, stop);
  by("toy-map").hidden = !map;
  by("toy-map-note").hidden = !map;
  if (!map) { by("toy-map-title").textContent = "No attention map was recorded for this run."; return; }
  const [layer, head] = [Number(by("toy-layer").value), Number(by("toy-head").value)];
  const rows = run.queries.length, cells = rows * run.keys;
  const start = ((map.i * run.layers + layer) * run.heads + head) * cells;
  const values = column(run.attention).subarray(start, start + cells);
  const z = range(rows).map((r) => Array.from(values.subarray(r * run.keys, (r + 1) * run.keys)));
  const tokens = run.tokens[map.scope];
  const needed = by("toy-mask").checked ? run.needed[map.scope] || run.needed.test || [] : [];
  const at = (query) => run.queries.indexOf(query);
  const every = Math.max(1, Math.ceil(run.keys / 24)), everyRow = Math.max(1, Math.ceil(rows / 14));
  const keys = range(run.keys).filter((k) => k % every === 0 || (tokens && run.keys <= 70));
  const size = run.keys > 40 ? 6 : 11;
  const circles = { type: "scatter", mode: "markers", x: needed.map(([, key]) => key), y: needed.map(([query]) => at(query)), hoverinfo: "skip" };
  const traces = [{
    type: "heatmap", z, zmin: 0, zmax: 1, colorscale: scale(VIRIDIS), colorbar: bar("", { thickness: 10 }), xgap: 0.5, ygap: 0.5,
    customdata: run.queries.map((q) => range(run.keys).map((k) => (tokens ? `${q}, key ${k} (token ${tokens[k]})` : `${q}, key ${k}`))),
    hovertemplate: "query %{customdata}<br>attention %{z:.3f}<extra></extra>",
  }, {
    ...circles, marker: { symbol: "circle-open", size, color: "#000", line: { width: 5 } },
  }, {
    ...circles, marker: { symbol: "circle-open", size, color: "#fff", line: { width: 2 } },  // seen on dark and on light cells
  }];
  draw("toy-map", traces, {
    height: Math.min(560, Math.max(360, 17 * rows + 110)),
    xaxis: axis(tokens ? "input token, by key position" : "key position", {
      showgrid: false, tickvals: keys, ticktext: keys.map((k) => (tokens ? String(tokens[k] ?? "") : String(k))), tickangle: 0,
      range: [-0.5, run.keys - 0.5], tickfont: { size: tokens && run.keys > 40 ? 8 : 11 },
    }),
    yaxis: axis("query position", {
      showgrid: false, range: [rows - 0.5, -0.5], tickvals: range(rows).filter((r) => r % everyRow === 0),
      ticktext: run.queries.filter((_, r) => r % everyRow === 0).map(String),
    }),
  });
  by("toy-map-title").textContent = `Attention of layer ${layer}, head ${head} at ${moment(run, map.at)}`;
  let mass = 0;
  for (const [query, key] of needed) mass += z[at(query)][key];
  by("toy-map-note").textContent = needed.length
    ? `Circles: the tokens the answer depends on; they hold ${digits(mass / new Set(needed.map(([q]) => q)).size, 2)} of the attention on average, the query itself counted too.`
    : "";
}

const panelKey = (y, solid, dashed) => ({
  xref: "paper", yref: "paper", x: 1, y, xanchor: "right", yanchor: "bottom", showarrow: false, font: { size: 11, color: colour("quiet") },
  text: `<span style="color:${colour("low")}">━</span> ${solid}  <span style="color:${colour("second")}">╍</span> ${dashed}`,
});

function drawCurves(run, stop) {
  const { at: stops, series } = run.curves;
  by("toy-curves").hidden = !stops.length;
  if (!stops.length) { by("toy-readout").textContent = "No training curves were recorded for this run."; return; }
  const [layer, head] = [Number(by("toy-layer").value), Number(by("toy-head").value)];
  const looks = {
    accuracy: ["accuracy, all tokens", colour("low"), "solid", "y"], token_accuracy: ["accuracy, each token", colour("second"), "dash", "y"],
    loss: ["loss, validation", colour("low"), "solid", "y2"], train_loss: ["loss, training", colour("second"), "dash", "y2"],
  };
  const readings = [];
  const place = stops.reduce((best, at, i) => (Math.abs(at - stop) < Math.abs(stops[best] - stop) ? i : best), 0);
  const traces = series.map((one) => {
    const values = column(one.values);
    const chosen = one.metric === "entropy_min" && one.layer === layer && one.head === head;
    const [name, line, dash, yaxis] = looks[one.metric]
      || [`minimum entropy over positions, layer ${one.layer} head ${one.head}`, OKABE_ITO[one.layer % 6], ["solid", "dash", "dashdot", "dot"][one.head % 4], "y3"];
    if (looks[one.metric] || chosen) readings.push(`${name} ${digits(values[place])}`);
    return {
      type: "scatter", mode: "lines", x: stops, y: Array.from(values), name, yaxis, opacity: yaxis !== "y3" || chosen ? 1 : 0.55,
      line: { color: line, dash, width: chosen ? 3 : 2 }, hovertemplate: `${name} %{y:.3f}, %{x:,} ${run.counted}<extra></extra>`,
    };
  });
  draw("toy-curves", traces, {
    height: 460, margin: { l: 8, r: 8, t: 26, b: 8 }, annotations: [panelKey(1, "all tokens", "each token"), panelKey(0.64, "validation", "training"),
      { ...panelKey(0.29), text: "minimum over positions; thick: the chosen head" }], xaxis: axis(run.counted === "samples" ? "training samples seen" : "gradient updates made", { anchor: "y3" }), hovermode: "closest",
    yaxis: axis("accuracy", { domain: [0.72, 1], range: [-0.04, 1.04] }), yaxis2: axis("loss", { domain: [0.36, 0.64], rangemode: "tozero" }),
    yaxis3: axis("min. entropy", { domain: [0, 0.29], range: [-0.04, 1.04] }),
    shapes: [{ type: "line", x0: stop, x1: stop, y0: 0, y1: 1, yref: "paper", line: { color: colour("ink"), width: 1.5, dash: "dot" } }],
  });
  by("toy-readout").textContent = `At ${moment(run, stops[place])}: ${readings.join("; ")}.`;
}

function drawToy() {
  const run = currentRun();
  const stops = checkpoints(run);
  const stop = stops[Number(by("toy-step").value)] ?? 0;
  by("toy-step-text").textContent = stops.length ? `${moment(run, stop)} (${Number(by("toy-step").value) + 1} of ${stops.length})` : "none";
  by("toy-step").setAttribute("aria-valuetext", moment(run, stop));
  drawMap(run, stop);
  drawCurves(run, stop);
  by("toy-link").href = toyAddress();
}

// The address of what is shown, and what an address shows.
function toyAddress() {
  const [input, layer, head, checkpoint] = ["scope", "layer", "head", "step"].map((id) => by(`toy-${id}`).value);
  return addressOf("toy", { run: currentRun().name, input, layer, head, checkpoint });
}

function showToyView(view) {
  const wanted = data.toy.findIndex((run) => run.name === view.get("run"));
  if (wanted >= 0) by("toy-run").value = String(wanted);
  chooseRun();
  choose(by("toy-scope"), view.get("input"));
  chooseScope();
  for (const name of ["layer", "head"]) choose(by(`toy-${name}`), view.get(name));
  if (view.has("checkpoint")) by("toy-step").value = view.get("checkpoint");  // the slider keeps it within its ends
  drawToy();
}

function chooseScope() {
  const stops = checkpoints(currentRun());
  by("toy-step").max = String(Math.max(0, stops.length - 1));
  by("toy-step").value = by("toy-step").max;
  by("toy-step").disabled = by("toy-play").disabled = stops.length < 2;
  drawToy();
}

function chooseRun() {
  const run = currentRun();
  const scopes = [...new Set(run.maps.map(([scope]) => scope))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  fill(by("toy-scope"), scopes.map((name) => [name, name === "test" ? "mean over test inputs" : name]), "test");
  const heads = run.curves.series.filter((one) => one.metric === "entropy_min");
  const [layers, perLayer] = [run.layers || 1 + Math.max(0, ...heads.map((h) => h.layer)), run.heads || 1 + Math.max(0, ...heads.map((h) => h.head))];
  fill(by("toy-layer"), range(layers).map((l) => [l, l]), 0);
  fill(by("toy-head"), range(perLayer).map((h) => [h, h]), 0);
  chooseScope();
}

function stopPlaying() {
  clearInterval(toy.timer);
  toy.timer = null;
  by("toy-play").textContent = "Play";
}

function play() {
  if (toy.timer) { stopPlaying(); return; }
  const slider = by("toy-step");
  if (slider.value === slider.max) slider.value = "0";
  by("toy-play").textContent = "Stop";
  const tick = () => {
    drawToy();
    if (slider.value === slider.max) stopPlaying();
    else slider.value = String(Number(slider.value) + Math.max(1, Math.round(Number(slider.max) / 40)));
  };
  toy.timer = setInterval(tick, 350);
  tick();
}

function startToy() {
  fill(by("toy-run"), data.toy.map((run, i) => [i, run.name]), 0);
  by("toy-run").addEventListener("change", () => { stopPlaying(); chooseRun(); });
  by("toy-scope").addEventListener("change", () => { stopPlaying(); chooseScope(); });
  by("toy-step").addEventListener("input", drawToy);
  by("toy-play").addEventListener("click", play);
  for (const id of ["toy-layer", "toy-head", "toy-mask"]) by(id).addEventListener("change", drawToy);
  for (const id of ["toy-controls", "toy-step"]) {  // after the above: what was chosen is the address
    by(id).addEventListener("change", () => history.replaceState(null, "", toyAddress()));
  }
  views.toy = showToyView;
  chooseRun();
}
