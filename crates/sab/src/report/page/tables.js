// The tables: what was measured, the runs, and the settings of each.

const NUMERIC = /^[<>≤≥≈~±−-]?\s*\d/;

/** A table that came with the page. */
function showTable(section, table) {
  if (!table) return;
  section.hidden = false;
  section.append(make("h2", {}, table.title));
  if (table.about) section.append(make("p", { class: "about" }, ...withCode(table.about)));
  for (const note of table.notes ?? []) section.append(make("p", { class: "about" }, `Data: ${note}.`));
  for (const { heading, columns, rows } of table.sections) {
    if (heading) section.append(make("h3", {}, heading));
    // A column is set as numbers if all that is in it begins like one.
    const numeric = columns.map((_, at) => at > 0 && rows.every((row) => !row[at] || NUMERIC.test(row[at]) || /^([–—-]|not run|diverged|overflow)$/.test(row[at])));
    const cell = (text, at) =>
      make(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : null, class: numeric[at] ? "number" : null }, text);
    const head = columns.map((text, at) => make("th", { scope: "col", class: numeric[at] ? "number" : null }, text));
    section.append(
      make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": heading || table.title },
        make("table", { class: columns.length > 3 ? "wide" : null },
          make("thead", {}, make("tr", {}, ...head)),
          make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map(cell)))))),
    );
  }
}

/** What is known of a run, from its summary or, while it goes on, from its curve. */
function factsOf(run) {
  const summary = run.summary ?? {};
  const last = (column) => (column ? column[column.length - 1] : undefined);
  const validation = summary.validation ?? Object.fromEntries(
    Object.entries(run.validation).filter(([name]) => name !== "update" && name !== "seconds").map(([name, column]) => [name, last(column)]),
  );
  const seen = [last(run.train.update), last(run.validation.update)].filter(isNumber);
  return {
    finished: run.summary !== null,
    failure: run.failure,
    updates: summary.updates ?? (seen.length ? Math.max(...seen) : 0),
    planned: run.config?.train?.updates,
    seconds: summary.wall_seconds ?? last(run.train.seconds),
    parameters: summary.parameters,
    seed: summary.seed ?? run.config?.train?.seed,
    threads: summary.threads ?? run.environment?.threads,
    validation,
    test: summary.test ?? {},
  };
}

/** The columns before the metrics. What is the same for all runs is said once, above the table. */
const COLUMNS = [
  { name: "Task", common: true, kind: "task", text: (run) => taskWords(run.config?.task) },
  { name: "Model", common: true, kind: "words", text: (run) => modelWords(run.config?.model) },
  { name: "Parameters", common: true, kind: "number", text: (_, fact) => count(fact.parameters), said: (text) => `${text} parameters` },
  { name: "Seed", kind: "number", text: (_, fact) => (isNumber(fact.seed) ? String(fact.seed) : NONE) },
  { name: "Updates", kind: "number", text: (_, fact) => (fact.finished || !isNumber(fact.planned) ? count(fact.updates) : `${count(fact.updates)} of ${count(fact.planned)}${fact.failure ? ", failed" : ""}`) },
  { name: "Time", kind: "number", text: (_, fact) => duration(fact.seconds) },
  { name: "Threads", common: true, kind: "number", text: (_, fact) => count(fact.threads), said: (text) => (text === "1" ? "1 thread" : `${text} threads`) },
];

/** The runs, one a row. */
function showRuns(section, runs) {
  const facts = runs.map(factsOf);
  const texts = COLUMNS.map(({ text }) => runs.map((run, place) => text(run, facts[place])));
  const common = COLUMNS.map((column, at) => column.common && new Set(texts[at]).size === 1 && texts[at][0] !== NONE);
  const own = COLUMNS.map((column, at) => ({ ...column, texts: texts[at] })).filter((_, at) => !common[at]);
  const said = COLUMNS.flatMap(({ said: words }, at) => (common[at] ? [words ? words(texts[at][0]) : texts[at][0]] : []));
  const kinds = [["Validation", "validation"], ["Test", "test"]].map(([title, kind]) =>
    ({ title, kind, names: inOrder(new Set(facts.flatMap((fact) => Object.keys(fact[kind])))) })).filter(({ names }) => names.length);

  const head = (name, kind) => make("th", { scope: "col", rowspan: 2, class: kind === "number" ? "number" : null }, name);
  const over = kinds.map(({ title, names }) => make("th", { colspan: names.length, class: "over first", scope: "colgroup" }, title));
  const under = kinds.flatMap(({ names }) =>
    names.map((name, at) => make("th", { scope: "col", class: at ? "number" : "number first", title: metricTitle(name) }, name)));
  const width = 1 + own.length + under.length;
  const body = runs.flatMap((run, place) => {
    const metrics = kinds.flatMap(({ kind, names }) =>
      names.map((name, at) => make("td", { class: at ? "number" : "number first" }, metric(name, facts[place][kind][name]))));
    const row = make("tr", {},
      make("th", { scope: "row" }, make("span", { class: "run-name" }, swatch(run), make("span", {}, run.name))),
      ...own.map((column) => make("td", { class: column.kind }, column.texts[place])), ...metrics);
    const begins = run.group && run.group !== runs[place - 1]?.group;
    return begins ? [make("tr", { class: "group" }, make("th", { colspan: width, scope: "rowgroup" }, run.group)), row] : [row];
  });
  section.append(
    make("h2", {}, runs.length === 1 ? "The run" : "The runs"),
    make("p", { class: "about" }, aboutRuns(facts, said)),
    make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": "Runs" },
      make("table", { class: "wide runs-table" },
        make("thead", {}, make("tr", {}, head("Run"), ...own.map(({ name, kind }) => head(name, kind)), ...over), make("tr", {}, ...under)),
        make("tbody", {}, ...body))),
  );
}

function aboutRuns(facts, said) {
  if (facts.length === 0) return "There are none.";
  const whose = facts.length === 1 ? "Task and model" : facts.length === 2 ? "Both" : `All ${facts.length}`;
  const words = said.length ? [`${whose}: ${said.join("; ")}.`] : [];
  const going = facts.filter((fact) => !fact.finished && !fact.failure).length;
  if (facts.some((fact) => fact.finished)) words.push("Metrics are of the model that validated best; cross-entropies (ce) in nats.");
  if (going) words.push(`${going === facts.length ? "Not finished" : `${going} not finished`} when this page was made: metrics are then of the latest validation, and there is no test yet.`);
  for (const { failure } of facts.filter((fact) => fact.failure)) words.push(`The metrics of a run that has failed are of its latest validation; ${failure}`);
  return words.join(" ");
}

/** Settings and environment, made when they are opened. */
function showSettings(section, runs) {
  section.append(
    make("h2", {}, "Settings"),
    make("p", { class: "about" }, "The whole configuration of each run, and the machine and programs that it ran on."),
  );
  for (const run of runs) {
    const body = make("div", { class: "settings-grid" });
    const fill = () => {
      if (body.childElementCount) return;
      body.append(...blocks("", run.config, ["task", "model", "train"]), ...blocks("environment", run.environment, []));
    };
    section.append(make("details", { ontoggle: fill },
      make("summary", {}, run.name, make("span", { class: "soft" }, taskWords(run.config?.task))), body));
  }
}

/** An object as blocks of keys and values; nested objects are blocks of their own. */
function blocks(title, value, first) {
  if (!value || typeof value !== "object") return [];
  const place = (key) => (first.includes(key) ? first.indexOf(key) : first.length);
  const entries = Object.entries(value).sort(([a], [b]) => place(a) - place(b));
  const nested = ([, inner]) => inner && typeof inner === "object" && !Array.isArray(inner);
  const flat = entries.filter((entry) => !nested(entry));
  const found = [];
  if (flat.length) {
    const lines = flat.flatMap(([key, inner]) => [make("dt", {}, key), make("dd", {}, settingWords(inner))]);
    found.push(make("div", {}, make("h3", {}, title || "general"), make("dl", {}, ...lines)));
  }
  for (const [key, inner] of entries.filter(nested)) found.push(...blocks(title ? `${title}.${key}` : key, inner, []));
  return found;
}

function settingWords(value) {
  if (Array.isArray(value)) return value.map(settingWords).join(" ");
  return value === null ? NONE : String(value);
}
