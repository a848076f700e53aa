// Begin, where traces are all there is on the page.
startTheme(drawTraces);
startTraces();
followView();
addEventListener("hashchange", followView);
document.documentElement.dataset.ready = "yes";
