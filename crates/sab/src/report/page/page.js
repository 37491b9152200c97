// The page, from top to bottom.

const { table, runs } = JSON.parse(document.getElementById("data").textContent);
const part = (id) => document.getElementById(id);

// A run that has measured nothing yet has no axes either.
for (const run of runs) {
  for (const curve of [run.train, run.validation]) for (const axis of ["update", "seconds"]) curve[axis] ??= [];
}
giveLooks(runs);
showTable(part("table"), table);
showRuns(part("runs"), runs);
const curves = showCurves(part("curves"), runs);
const attention = showAttention(part("attention"), runs);
showSettings(part("settings"), runs);

for (const section of document.querySelectorAll("main > section:not([hidden])")) {
  part("contents").append(make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent));
}

// The parts were not there yet when the browser looked for the one that its address names.
part(location.hash.slice(1))?.scrollIntoView({ behavior: "instant" });
if (location.hash === "#selftest") selftest({ runs, curves, attention });
