// The token view: a problem's text coloured by one head's entropy; the value is also told in words.
const tokenView = { current: -1, values: [], text: null, spans: [] };

const currentSet = () => data.pretrained[Number(by("pt-model").value)];

function chooseTexts(set) {
  const names = [...new Set(set.tokens.texts.map((text) => text.problem))];
  by("pt-tokens").hidden = names.length === 0;
  if (!names.length) return;
  fill(by("pt-problem"), names.map((name) => [name, name]), names[0]);
  chooseConditions(set);
}

function chooseConditions(set) {
  const of = set.tokens.texts.filter((text) => text.problem === by("pt-problem").value);
  fill(by("pt-text"), of.map((text) => [text.condition, text.condition]), "cot");
}

function drawTokens(set) {
  if (by("pt-tokens").hidden) return;
  const text = set.tokens.texts.find((t) => t.problem === by("pt-problem").value && t.condition === by("pt-text").value);
  const [layer, head] = pretrained.head;
  const start = (layer * set.heads + head) * text.tokens.length;
  tokenView.values = column(text.values).subarray(start, start + text.tokens.length);
  if (tokenView.text !== text) {
    tokenView.text = text;
    tokenView.current = -1;
    tokenView.spans = text.tokens.map(tokenSpan);
    const [question, answer] = [tokenView.spans.slice(0, text.question), tokenView.spans.slice(text.question)];
    by("pt-view").replaceChildren(partLabel("Question"), ...question, partLabel(`Answer (${text.condition})`), ...answer);
  }
  tokenView.spans.forEach((span, i) => {
    const { background, ink } = shade(tokenView.values[i]);
    span.style.background = background;
    span.style.color = ink;
  });
  const more = set.tokens.left_out ? ` The texts of ${set.tokens.left_out} more problems were left out to keep the file small.` : "";
  by("pt-tokens-about").textContent = `The text of a problem, coloured by the normalised entropy of layer ${layer}, head ${head} at `
    + `each token. The first token sees only itself and has no entropy. Arrow keys go from token to token.${more}`;
  tellToken();
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

function selectToken(i) {
  const { spans } = tokenView;
  if (spans[tokenView.current]) spans[tokenView.current].classList.remove("current");
  tokenView.current = Math.min(spans.length - 1, Math.max(0, i));
  const span = spans[tokenView.current];
  span.classList.add("current");
  const box = by("pt-view");
  if (span.offsetTop < box.scrollTop + box.offsetTop || span.offsetTop > box.scrollTop + box.offsetTop + box.clientHeight - 40) {
    box.scrollTop = span.offsetTop - box.offsetTop - 40;
  }
  tellToken();
}

function tellToken() {
  const i = tokenView.current;
  if (i < 0) { by("pt-token").textContent = "Point at a token to read its value."; return; }
  const part = i < tokenView.text.question ? "question" : "answer";
  by("pt-token").textContent = `Token ${i + tokenView.text.first} (${part}) ${JSON.stringify(tokenView.text.tokens[i])}: `
    + `normalised entropy ${digits(tokenView.values[i], 2)}`;
}

function startTokens() {
  by("pt-ramp").style.background = `linear-gradient(90deg, ${VIRIDIS.join(",")})`;
  by("pt-problem").addEventListener("change", () => { chooseConditions(currentSet()); drawTokens(currentSet()); });
  by("pt-text").addEventListener("change", () => drawTokens(currentSet()));
  const view = by("pt-view");
  for (const kind of ["mouseover", "click"]) {
    view.addEventListener(kind, (event) => {
      const span = event.target.closest(".token");
      if (span) selectToken(Number(span.dataset.at));
    });
  }
  view.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (!step) return;
    event.preventDefault();
    selectToken(tokenView.current + step);
  });
}
