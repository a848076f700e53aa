// The token view: two texts of a problem side by side, coloured by one head's entropy; the value is also told in words.
const textView = (end) => ({ end, current: -1, values: [], text: null, spans: [] });
const textViews = [textView(""), textView("-second")];

const currentSet = () => data.pretrained[Number(by("pt-model").value)];
const textsOf = (set) => set.tokens.texts.filter((text) => text.problem === by("pt-problem").value);

// The text that a view has chosen.
const chosenText = (set, { end }) => textsOf(set).find((text) => text.condition === by(`pt-text${end}`).value);

function chooseTexts(set) {
  const names = [...new Set(set.tokens.texts.map((text) => text.problem))];
  by("pt-texts").hidden = names.length === 0;
  by("pt-no-texts").hidden = names.length > 0;
  if (!names.length) return;
  fill(by("pt-problem"), names.map((name) => [name, name]), names[0]);
  chooseConditions(set);
  chooseStatistics(set);
}

// First the texts whose closing sentence the board compares; else two that end in one; else any two.
function chooseConditions(set) {
  const texts = textsOf(set);
  const names = texts.map((text) => text.condition);
  const closing = texts.filter((text) => text.closing).map((text) => text.condition);
  const { first, second } = set.tokens.start;
  const pair = names.includes(first) && names.includes(second) ? [first, second] : closing.length > 1 ? closing : names;
  textViews.forEach(({ end }, i) => fill(by(`pt-text${end}`), names.map((name) => [name, name]), pair[i] ?? pair[0]));
}

function drawTokens(set) {
  if (by("pt-texts").hidden) return;
  for (const view of textViews) drawText(set, view);
  const [layer, head] = pretrained.head;
  const more = set.tokens.left_out ? ` The texts of ${set.tokens.left_out} more problems were left out to keep the file small.` : "";
  by("pt-tokens-about").textContent = `Two texts of a problem, coloured by the normalised entropy of layer ${layer}, head ${head} at `
    + `each token. The first token sees only itself and has no entropy. Arrow keys go from token to token.${more}`;
  drawClosing(set);
}

function drawText(set, view) {
  const text = chosenText(set, view);
  const [layer, head] = pretrained.head;
  const start = (layer * set.heads + head) * text.tokens.length;
  view.values = column(text.values).subarray(start, start + text.tokens.length);
  if (view.text !== text) {
    view.text = text;
    view.current = -1;
    view.spans = text.tokens.map(tokenSpan);
    const closing = text.tokens.length - text.closing;
    const parts = [
      ["Question", 0, text.question], [`Answer (${text.condition})`, text.question, closing],
      [`Closing sentence (${text.condition})`, closing, text.tokens.length],
    ];
    by(`pt-view${view.end}`).replaceChildren(...parts.filter(([, from, to]) => to > from)
      .flatMap(([label, from, to]) => [partLabel(label), ...view.spans.slice(from, to)]));
  }
  view.spans.forEach((span, i) => {
    const { background, ink } = shade(view.values[i]);
    span.style.background = background;
    span.style.color = ink;
  });
  tellToken(view);
}

function tokenSpan(token, i) {
  const span = document.createElement("span");
  span.className = "token";
  span.textContent = token.replace(/\n/g, "⏎\n");
  span.dataset.at = String(i);
  return span;
}

function partLabel(text) {
  const label = document.createElement("span");
  label.className = "part-label";
  label.textContent = text;
  return label;
}

function selectToken(view, i) {
  const { spans } = view;
  if (spans[view.current]) spans[view.current].classList.remove("current");
  view.current = Math.min(spans.length - 1, Math.max(0, i));
  const span = spans[view.current];
  span.classList.add("current");
  const box = by(`pt-view${view.end}`);
  if (span.offsetTop < box.scrollTop + box.offsetTop || span.offsetTop > box.scrollTop + box.offsetTop + box.clientHeight - 40) {
    box.scrollTop = span.offsetTop - box.offsetTop - 40;
  }
  tellToken(view);
}

function tellToken({ end, current, text, values }) {
  const told = by(`pt-token${end}`);
  if (current < 0) { told.textContent = "Point at a token to read its value."; return; }
  const part = current < text.question ? "question" : current < text.tokens.length - text.closing ? "answer" : "closing sentence";
  told.textContent = `Token ${current + text.first} (${part}) ${JSON.stringify(text.tokens[current])}: `
    + `normalised entropy ${digits(values[current], 2)}`;
}

function startTokens() {
  by("pt-ramp").style.background = `linear-gradient(90deg, ${VIRIDIS.join(",")})`;
  by("pt-problem").addEventListener("change", () => { chooseConditions(currentSet()); drawTokens(currentSet()); });
  for (const view of textViews) {
    by(`pt-text${view.end}`).addEventListener("change", () => drawTokens(currentSet()));
    startView(view, by(`pt-view${view.end}`));
  }
  startClosing();
}

function startView(view, box) {
  for (const kind of ["mouseover", "click"]) {
    box.addEventListener(kind, (event) => {
      const span = event.target.closest(".token");
      if (span) selectToken(view, Number(span.dataset.at));
    });
  }
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    selectToken(view, view.current + step);
  });
}
