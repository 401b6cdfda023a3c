// Tables that sort: final numbers with their intervals, and paired differences.

/** A table; a column is { title, words?, cell(row) -> { text, value, under?, kind?, before? } }. */
function sortableTable(columns, rows, name) {
  const body = make("tbody");
  for (const row of rows) {
    const line = make("tr", row.attributes ?? {});
    columns.forEach((column, k) => {
      const { text, value, under, kind, before } = column.cell(row);
      const classes = [column.words && "words", kind].filter(Boolean).join(" ");
      const cell = make(
        k ? "td" : "th",
        { scope: k ? null : "row", class: classes || null, "data-value": value ?? "" },
        ...(before ? [before, " "] : []),
        text,
      );
      if (under) cell.append(make("span", { class: "interval" }, under));
      line.append(cell);
    });
    body.append(line);
  }
  const heads = columns.map((column, k) =>
    make(
      "th",
      { scope: "col", class: column.words ? "words" : null, "aria-sort": "none" },
      make("button", { type: "button", onclick: () => sortBy(k) }, column.title),
    ),
  );
  const sortBy = (k) => {
    const down = heads[k].getAttribute("aria-sort") === "ascending";
    heads.forEach((head, other) =>
      head.setAttribute("aria-sort", other !== k ? "none" : down ? "descending" : "ascending"),
    );
    const key = (line) => line.cells[k].dataset.value;
    const order = (a, b) =>
      (columns[k].words ? key(a).localeCompare(key(b)) : Number(key(a)) - Number(key(b))) * (down ? -1 : 1);
    // Whoever has no number stands last, whichever way.
    const empty = (line) => (key(line) === "" ? 1 : 0);
    body.append(...[...body.rows].sort((a, b) => empty(a) - empty(b) || order(a, b)));
  };
  return make("table", { "aria-label": name }, make("thead", {}, make("tr", {}, ...heads)), body);
}

function interval(estimate, words) {
  return estimate.low === null ? undefined : `${words(estimate.low)} to ${words(estimate.high)}`;
}

function drawNumbers() {
  const rows = runs.flatMap((run, index) =>
    run.algorithms.map((algorithm) => ({
      run,
      index,
      algorithm,
      attributes: { "data-algorithm": algorithm.name, "data-run": index },
    })),
  );
  const columns = [
    {
      title: "algorithm",
      words: true,
      cell: ({ algorithm }) => ({ text: algorithm.name, value: algorithm.name, before: swatch(algorithm.name) }),
    },
  ];
  if (runs.length > 1)
    columns.push({
      title: "run",
      words: true,
      cell: ({ run, index }) => ({ text: runMark(index) + run.title, value: run.title }),
    });
  for (const metric of metricsShown()) {
    columns.push({
      title: METRICS[metric].title.toLowerCase().replace("‖∇f‖", "‖∇F‖"),
      cell: ({ algorithm }) => {
        const found = algorithm.final[metric];
        if (!found) return { text: "–" };
        if (found.mean === null) return { text: "diverged", kind: "lost" };
        return { text: number(found.mean), value: found.mean, under: interval(found, number) };
      },
    });
  }
  columns.push(
    {
      title: "mean ε_t",
      cell: ({ algorithm }) => ({ text: number(algorithm.mean_epsilon_t), value: algorithm.mean_epsilon_t }),
    },
    {
      title: "rounds",
      cell: ({ algorithm }) => ({ text: algorithm.rounds.toLocaleString("en"), value: algorithm.rounds }),
    },
    { title: "seeds", cell: ({ algorithm }) => ({ text: `${algorithm.seeds.length}`, value: algorithm.seeds.length }) },
    { title: "seconds", cell: ({ algorithm }) => ({ text: algorithm.seconds.toFixed(1), value: algorithm.seconds }) },
  );
  const seeds = runs.map((run) => run.seeds.length);
  const one = "One seed says nothing about another: with one seed there is no interval.";
  const several = `Means over seeds at the last evaluation; below each, the ${LEVEL} confidence interval (Student’s t).`;
  at("numbers-lead").textContent = [
    Math.max(...seeds) > 1 && several,
    Math.min(...seeds) === 1 && one,
    "Press a heading to sort.",
  ]
    .filter(Boolean)
    .join(" ");
  at("final-table").append(sortableTable(columns, rows, "Final numbers"));
  at("numbers").hidden = !rows.length;
}

function drawPaired() {
  const able = runs.flatMap((run, index) => (Object.keys(run.differences).length ? [index] : []));
  at("paired").hidden = !able.length;
  if (!able.length) return;
  const chosen = { run: able[0], base: Object.keys(runs[able[0]].differences)[0] };
  const redraw = () => {
    const run = runs[chosen.run];
    const bases = Object.keys(run.differences);
    if (!bases.includes(chosen.base)) chosen.base = bases[0];
    at("paired-choices").replaceChildren(
      ...(able.length > 1
        ? [
            picker(
              "paired-run",
              "run",
              able.map((index) => [`${index}`, runMark(index) + runs[index].title]),
              `${chosen.run}`,
              (value) => {
                chosen.run = Number(value);
                redraw();
                at("paired-run").focus();
              },
            ),
          ]
        : []),
      picker(
        "paired-base",
        "compared with",
        bases.map((name) => [name, name]),
        chosen.base,
        (value) => {
          chosen.base = value;
          redraw();
          at("paired-base").focus();
        },
      ),
    );
    const rows = Object.entries(run.differences[chosen.base]).map(([name, found]) => ({
      name,
      found,
      attributes: { "data-algorithm": name, "data-run": chosen.run, hidden: !isShown(name, chosen.run) },
    }));
    const metrics = metricsShown().filter((metric) => rows.some(({ found }) => found[metric]));
    const columns = [
      {
        title: `algorithm, less ${chosen.base}`,
        words: true,
        cell: ({ name }) => ({ text: name, value: name, before: swatch(name) }),
      },
    ];
    for (const metric of metrics) {
      columns.push({
        title: `Δ ${METRICS[metric].title.toLowerCase().replace("‖∇f‖", "‖∇F‖")}`,
        cell: ({ found }) => {
          const difference = found[metric];
          if (!difference) return { text: "–" };
          if (difference.mean === null) return { text: "diverged", kind: "lost" };
          const apart = difference.low !== null && (difference.low > 0 || difference.high < 0);
          return {
            text: signed(difference.mean),
            value: difference.mean,
            under: interval(difference, signed),
            kind: apart ? "apart" : null,
          };
        },
      });
    }
    at("paired-table").replaceChildren(sortableTable(columns, rows, `Differences to ${chosen.base}`));
    at("paired-lead").textContent =
      run.seeds.length > 1
        ? `The final number of each algorithm less that of the one compared with, seed by seed: the mean, and its ${LEVEL} confidence interval (Student’s t). Bold: the interval leaves zero out.`
        : "The final number of each algorithm less that of the one compared with. With one seed there is no interval: a difference may be chance.";
  };
  redraw();
}
