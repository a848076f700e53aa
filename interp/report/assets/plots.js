// How plots look: colours from the style sheet, so that light, dark and paper agree; one set of drawing helpers.
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const OKABE_ITO = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9"];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const scale = (colours) => colours.map((c, i) => [i / (colours.length - 1), c]);

// Plotly reads a little HTML in labels: text from data is escaped, so that it stays text.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/%\{/g, "%&#123;");

function axis(title, more = {}) {
  return {
    title: { text: title, standoff: 6, font: { size: 12 } }, automargin: true, zeroline: false, ticks: "outside", ticklen: 3,
    gridcolor: colour("line"), linecolor: colour("line"), tickcolor: colour("line"), fixedrange: true, ...more,
  };
}

function draw(id, traces, layout) {
  const place = by(id);
  const common = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 8, r: 8, t: 10, b: 8 },
    font: { color: colour("ink"), size: 12, family: getComputedStyle(document.body).fontFamily },
    hoverlabel: { align: "left", bgcolor: colour("paper"), bordercolor: colour("line"), font: { color: colour("ink") } },
    showlegend: false, dragmode: false,
  };
  const width = document.documentElement.dataset.print ? { width: place.clientWidth } : {};
  const drawn = Plotly.react(place, traces, { ...common, ...layout, ...width }, { displayModeBar: false, responsive: true });
  place.dataset.drawn = String(Number(place.dataset.drawn || 0) + 1);
  return drawn;
}

const bar = (title, more = {}) => ({ thickness: 10, outlinewidth: 0, len: 0.95, title: { text: title, side: "right" }, ...more });

const mapHeight = (layers) => Math.min(640, Math.max(300, 13 * layers + 90));

// Layer by head; `marks` are [layer, head, up or down]; `chosen` is outlined; a click goes to `pick`.
function headMap(id, set, values, options) {
  const { low, high, colours, title, marks = [], chosen, pick, hover } = options;
  const z = range(set.layers).map((l) => Array.from(values.subarray(l * set.heads, (l + 1) * set.heads)));
  const traces = [{
    type: "heatmap", z, zmin: low, zmax: high, colorscale: scale(colours), xgap: 1, ygap: 1, colorbar: bar(title),
    hovertemplate: `layer %{y}, head %{x}<br>${hover} %{z:.3f}<extra></extra>`,
  }];
  for (const [way, symbol] of [["down", "triangle-down"], ["up", "triangle-up"]]) {
    const of = marks.filter((mark) => mark[2] === way);
    traces.push({
      type: "scatter", mode: "markers", x: of.map((m) => m[1]), y: of.map((m) => m[0]), hoverinfo: "skip",
      marker: { symbol, size: set.heads > 20 ? 4 : 6, color: colour("mark"), line: { width: 0.5, color: colour("middle") } },
    });
  }
  const [layer, head] = chosen;
  draw(id, traces, {
    height: mapHeight(set.layers),
    xaxis: axis("head", { showgrid: false, range: [-0.5, set.heads - 0.5], dtick: set.heads > 16 ? 4 : set.heads > 10 ? 2 : 1 }),
    yaxis: axis("layer", { showgrid: false, range: [set.layers - 0.5, -0.5], dtick: set.layers > 12 ? 5 : 1 }),
    shapes: [{
      type: "rect", x0: head - 0.5, x1: head + 0.5, y0: layer - 0.5, y1: layer + 0.5, line: { color: colour("ink"), width: 3 },
    }],
  });
  const place = by(id);
  if (!place.dataset.listens) {
    place.dataset.listens = "yes";
    place.on("plotly_click", (event) => place.pick(event.points[0].y, event.points[0].x));
  }
  place.pick = pick;
}

// The colour of a value in [0, 1] on the scale of the maps, and the ink that is readable on it; none of no value.
function shade(value) {
  if (Number.isNaN(value)) return { background: "", ink: "" };
  const at = Math.min(1, Math.max(0, value)) * (VIRIDIS.length - 1);
  const i = Math.min(VIRIDIS.length - 2, Math.floor(at));
  const channel = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const rgb = [0, 1, 2].map((k) => Math.round(channel(VIRIDIS[i], k) * (1 - at + i) + channel(VIRIDIS[i + 1], k) * (at - i)));
  const light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 120;
  return { background: `rgb(${rgb.join(",")})`, ink: light ? "#000" : "#fff" };
}
