// Curves: one chart a metric, one line an algorithm and a run, bands over seeds; and what chooses among them.

const PLAIN = { displayModeBar: false, responsive: true };
const axes = { rounds: false, values: true };

function layout(extra) {
  const axis = { automargin: true, showline: false, zeroline: false, fixedrange: false };
  return {
    font: { family: "system-ui, sans-serif", size: 12.5 },
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    margin: { l: 46, r: 14, t: 10, b: 40 },
    showlegend: false,
    hoverlabel: { namelength: -1, font: { size: 12 } },
    ...extra,
    xaxis: { ...axis, ...extra.xaxis },
    yaxis: { ...axis, ...extra.yaxis },
  };
}

function metricsShown() {
  return Object.keys(METRICS).filter((metric) => runs.some((run) => run.algorithms.some((one) => one.curves[metric])));
}

/** A line, and its band as a closed shape where there are several seeds. */
function tracesOf(metric) {
  const traces = [];
  for (const [index, run] of runs.entries()) {
    for (const algorithm of run.algorithms) {
      const curve = algorithm.curves[metric];
      if (!curve || !curve.rounds.length) continue;
      const { colour, dash } = styles[algorithm.name];
      const seeds = algorithm.seeds.length;
      const common = { meta: { algorithm: algorithm.name, run: index }, visible: isShown(algorithm.name, index) };
      if (seeds > 1) {
        traces.push({
          ...common,
          type: "scatter",
          mode: "lines",
          hoverinfo: "skip",
          x: [...curve.rounds, ...curve.rounds.toReversed()],
          y: [...curve.high, ...curve.low.toReversed()],
          fill: "toself",
          fillcolor: `${colour}26`,
          line: { width: 0 },
        });
      }
      const several = runs.length > 1;
      const range = seeds > 1 ? " (%{customdata[0]:.4~g} to %{customdata[1]:.4~g})" : "";
      traces.push({
        ...common,
        type: "scatter",
        mode: several ? "lines+markers" : "lines",
        name: algorithm.name + (several ? ` · ${run.title}` : ""),
        x: curve.rounds,
        y: curve.mean,
        customdata: curve.low.map((low, k) => [low, curve.high[k]]),
        hovertemplate: `%{y:.4~g}${range}`,
        line: { color: colour, dash, width: 1.9 },
        marker: { symbol: MARKERS[index % MARKERS.length], size: 7, maxdisplayed: 9, color: colour },
      });
    }
  }
  return traces;
}

function isShown(algorithm, run) {
  return shown.algorithms.has(algorithm) && shown.runs.has(run);
}

function curveLayout(metric) {
  const logarithmic = axes.values && METRICS[metric].logarithmic;
  return layout({
    hovermode: "x unified",
    xaxis: { title: { text: "round", standoff: 8 }, type: axes.rounds ? "log" : "linear", hoverformat: "d" },
    yaxis: { type: logarithmic ? "log" : "linear", nticks: logarithmic ? 4 : 7, tickformat: "~g" },
  });
}

function drawCurveFrames() {
  const seeds = Math.max(...runs.map((run) => run.seeds.length));
  const bands =
    seeds > 1
      ? "Lines are means over seeds, bands reach from the lowest seed to the highest."
      : "One seed: lines are its values, and there are no bands.";
  at("curves-lead").textContent = metricsShown().length
    ? `${bands} Point at a chart for its numbers, drag to enlarge, double-click to go back.`
    : "No algorithm has finished yet.";
  at("charts").dataset.count = metricsShown().length;
  for (const metric of metricsShown()) {
    const { title } = METRICS[metric];
    at("charts").append(
      make(
        "figure",
        { class: "chart" },
        make("figcaption", {}, make("h3", {}, title), make("p", { id: `${metric}-note` })),
        make("div", {
          class: "plot waiting",
          id: `chart-${metric}`,
          role: "img",
          "aria-label": `${title} over rounds. The final numbers are in the table below.`,
        }),
      ),
    );
  }
}

async function drawCurves(loading) {
  const plotly = await loading;
  for (const metric of metricsShown()) {
    const place = at(`chart-${metric}`);
    place.classList.remove("waiting");
    await plotly.newPlot(place, tracesOf(metric), curveLayout(metric), PLAIN);
    noteAxes(metric);
  }
}

function noteAxes(metric) {
  const words = [];
  if (axes.values && METRICS[metric].logarithmic) words.push("logarithmic");
  if (axes.rounds) words.push("rounds logarithmic, from 1");
  at(`${metric}-note`).textContent = words.join(" · ");
}

function drawChoices(plotly) {
  const chips = (legend, options, set, changed) => {
    const boxes = [];
    const field = make("fieldset", {}, make("legend", {}, legend));
    for (const [value, ...label] of options) {
      const box = make("input", {
        type: "checkbox",
        checked: set.has(value),
        value,
        onchange: () => {
          box.checked ? set.add(value) : set.delete(value);
          changed();
        },
      });
      boxes.push([box, value]);
      field.append(make("label", { class: "chip" }, box, ...label));
    }
    const all = (on) => {
      for (const [box, value] of boxes) {
        box.checked = on;
        on ? set.add(value) : set.delete(value);
      }
      changed();
    };
    if (options.length > 2) {
      field.append(
        make("button", { type: "button", onclick: () => all(true) }, "All"),
        make("button", { type: "button", onclick: () => all(false) }, "None"),
      );
    }
    return field;
  };
  const form = at("choices");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.append(
    chips(
      "Algorithms",
      ALGORITHMS.map((name) => [name, swatch(name), name]),
      shown.algorithms,
      () => showChosen(plotly),
    ),
  );
  if (runs.length > 1) {
    form.append(
      chips(
        "Runs",
        runs.map((run, index) => [index, runMark(index) + run.title]),
        shown.runs,
        () => showChosen(plotly),
      ),
    );
  }
  const lines = new Set(["values"]);
  form.append(
    chips(
      "Logarithmic axes",
      [
        ["values", "losses and gradients"],
        ["rounds", "rounds"],
      ],
      lines,
      () => {
        axes.values = lines.has("values");
        axes.rounds = lines.has("rounds");
        plotly.then((ready) =>
          metricsShown().forEach((metric) => {
            ready.relayout(at(`chart-${metric}`), curveLayout(metric));
            noteAxes(metric);
          }),
        );
      },
    ),
  );
}

/** Show in charts and tables what is ticked. */
function showChosen(plotly) {
  for (const row of document.querySelectorAll("tr[data-algorithm]")) {
    row.hidden = !isShown(row.dataset.algorithm, Number(row.dataset.run));
  }
  plotly.then((ready) =>
    metricsShown().forEach((metric) => {
      const place = at(`chart-${metric}`);
      ready.restyle(place, { visible: place.data.map(({ meta }) => isShown(meta.algorithm, meta.run)) });
    }),
  );
}
