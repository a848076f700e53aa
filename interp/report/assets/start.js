// Begin: the board at once; Plotly and the explorers after the first paint; redraw for light, dark and paper.
startBoard();

const redraws = [];
const idle = window.requestIdleCallback || ((work) => setTimeout(work, 0));
const later = (work) => requestAnimationFrame(() => idle(() => work(), { timeout: 300 }));

// Plotly stands in the page as plain text, so that reading it does not hold up the first paint.
function loadPlotly() {
  const script = document.createElement("script");
  script.textContent = by("plotly").textContent;
  document.head.append(script);
  by("plotly").remove();
}

function startExplorers() {
  const explorers = [[data.pretrained, startPretrained, drawPretrained], [data.toy, startToy, drawToy]];
  const wanted = explorers.filter(([sets]) => sets.length);
  if (wanted.length) loadPlotly();
  const next = () => {
    if (!wanted.length) { document.documentElement.dataset.ready = "yes"; return; }
    const [, start, again] = wanted.shift();
    start();
    redraws.push(again);
    later(next);
  };
  later(next);
}
later(startExplorers);

const redraw = () => redraws.forEach((again) => again());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
matchMedia("print").addEventListener("change", (event) => {
  if (event.matches) document.documentElement.dataset.print = "yes";
  else delete document.documentElement.dataset.print;
  for (const details of document.querySelectorAll("details")) {  // paper cannot be clicked
    if (event.matches && !details.open) details.dataset.opened = "yes";
    if (details.dataset.opened) details.open = event.matches;
    if (!event.matches) delete details.dataset.opened;
  }
  redraw();
});
