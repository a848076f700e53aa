// Begin: the claims at once; Plotly and the explorers after the first paint; redraw for light, dark and paper.
const redraws = [];
const redraw = () => redraws.forEach((again) => again());
startTheme(redraw);
startContents();
startClaims();

const idle = window.requestIdleCallback || ((work) => setTimeout(work, 0));
const later = (work) => requestAnimationFrame(() => idle(() => work(), { timeout: 300 }));

// Plotly stands in the page compressed: a smaller file, and reading it does not hold up the first paint.
async function loadPlotly() {
  const text = atob(by("plotly").textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);  // Uint8Array.from takes half a second
  const source = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(source).text();
  document.head.append(script);
  by("plotly").remove();
}

async function startExplorers() {
  const explorers = [[data.pretrained, startPretrained, drawPretrained], [data.toy, startToy, drawToy], [data.traces, startTraces, drawTraces]];
  const wanted = explorers.filter(([sets]) => sets.length);
  if (data.pretrained.length || data.toy.length) await loadPlotly();
  const next = () => {
    if (!wanted.length) {
      document.documentElement.dataset.ready = "yes";
      if (/^#(pretrained|toy|traces|measurements)/.test(location.hash)) followAddress();  // plots have moved them, and know their views
      return;
    }
    const [, start, again] = wanted.shift();
    start();
    redraws.push(again);
    later(next);
  };
  later(next);
}
later(startExplorers);

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
