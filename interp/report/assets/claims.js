// The claims: filters by conclusion, paper and words; links that open what they lead to; the side navigation.
const claimList = { conclusion: "all", all: [] };

// One claim, judged or not run: its element, its link in the navigation and the text that is searched.
function claimOf(element) {
  const words = [".id", ".sentence", ".finding"].map((part) => element.querySelector(part)?.textContent).join(" ");
  return { element, words: words.toLowerCase(), link: document.querySelector(`[data-for="${CSS.escape(element.id)}"]`) };
}

function showClaims() {
  const terms = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const paper = by("paper-filter").value, { conclusion, all } = claimList;
  let shown = 0;
  for (const { element, words, link } of all) {
    const found = terms.every((term) => words.includes(term));
    const asked = (paper === "all" || element.dataset.paper === paper) && (conclusion === "all" || element.dataset.conclusion === conclusion);
    element.hidden = !(found && asked);
    link.hidden = !found;
    shown += found && asked;
  }
  for (const group of document.querySelectorAll("details.not-run, .paper-section, .paper-links")) {
    group.hidden = !group.querySelector(".claim:not([hidden]), [data-for]:not([hidden])");
  }
  for (const folded of document.querySelectorAll("details.not-run")) folded.open = terms.length > 0 || conclusion === "not run";
  by("board-count").textContent = shown === all.length ? "" : shown ? `${shown} of ${all.length} claims shown` : "No claim fits.";
}

function chooseConclusion(conclusion) {
  claimList.conclusion = conclusion;
  for (const button of document.querySelectorAll("#board-filters button")) {
    button.setAttribute("aria-pressed", String(button.dataset.conclusion === conclusion));
  }
  showClaims();
}

// Opens what the address names, with everything around it, even if a filter hides it; and the view of an explorer.
function followAddress() {
  const [id] = location.hash.slice(1).split("?");
  const target = by(decodeURIComponent(id));
  if (!target) return;
  followView();
  if (target.closest("[hidden]")) {
    by("search").value = "";
    by("paper-filter").value = "all";
    chooseConclusion("all");
  }
  if (target.matches("details, li.claim")) {
    for (let place = target; place; place = place.parentElement.closest("details")) if (place.matches("details")) place.open = true;
  }
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${id}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  target.scrollIntoView();
}

function startClaims() {
  claimList.all = [...document.querySelectorAll(".claim")].map(claimOf);
  for (const button of document.querySelectorAll("#board-filters button")) {
    button.addEventListener("click", () => chooseConclusion(button.dataset.conclusion));
  }
  by("paper-filter").addEventListener("change", showClaims);
  by("search").addEventListener("input", showClaims);
  by("board").addEventListener("click", (event) => {  // an opened claim is the address, to be copied from there
    const claim = event.target.closest("summary")?.parentElement;
    if (claim?.matches(".claim") && !claim.open) history.replaceState(null, "", `#${claim.id}`);
  });
  document.addEventListener("click", (event) => {  // the same link twice changes no address
    if (event.target.closest("a")?.hash === location.hash) followAddress();
  });
  addEventListener("hashchange", followAddress);
  showClaims();
  followAddress();
}

// On a narrow screen the contents fold away; a link closes them.
function startContents() {
  const toggle = by("contents-toggle");
  const show = (open) => {
    toggle.setAttribute("aria-expanded", String(open));
    by("side").toggleAttribute("data-open", open);
  };
  toggle.addEventListener("click", () => show(toggle.getAttribute("aria-expanded") !== "true"));
  by("contents").addEventListener("click", (event) => { if (event.target.closest("a")) show(false); });
  by("side").addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !by("side").hasAttribute("data-open")) return;
    show(false);
    toggle.focus();
  });
  document.documentElement.dataset.script = "yes";
}
