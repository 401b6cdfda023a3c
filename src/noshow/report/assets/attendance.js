// The roll call of one run, algorithm and seed: who answered, who was silenced, and what is lost with them.

const LABEL_COLOURS = "#4477aa #ee6677 #228833 #ccbb44 #66ccee #aa3377 #999999 #e08a3c #44aa99 #8866cc".split(" ");
const ORDERS = { silenced: "silenced most first", held: "most data first", id: "by number" };
const picture = { run: 0, call: 0, seed: 0, order: "silenced", cells: null, rows: [], cursor: null };

function theCall() {
  return runs[picture.run].roll_calls[picture.call];
}

function theSeed() {
  return theCall().seeds[picture.seed];
}

function labelColour(k) {
  return LABEL_COLOURS[k % LABEL_COLOURS.length];
}

async function drawAttendance(plotly) {
  const able = [...runs.keys()].filter((index) => runs[index].roll_calls.length);
  at("roll-call").hidden = !able.length;
  if (!able.length) return;
  picture.run = able[0];
  const canvas = at("picture");
  canvas.addEventListener("pointermove", (event) => pointAt(cellUnder(event)));
  canvas.addEventListener("pointerleave", () => pointAt(null));
  canvas.addEventListener("keydown", moveCursor);
  new ResizeObserver(() => canvas.clientWidth === picture.geometry?.wide || paint()).observe(canvas);
  addEventListener("theme", () => paint());
  const change = (part) => async () => {
    if (part === "run") picture.call = picture.seed = 0;
    if (part === "call") picture.seed = Math.min(picture.seed, theCall().seeds.length - 1);
    chooseAttendance(able, change);
    await showAttendance(plotly);
    at(`roll-call-${part}`)?.focus();
  };
  chooseAttendance(able, change);
  await showAttendance(plotly);
}

function chooseAttendance(able, change) {
  const run = runs[picture.run];
  const choose = (part, label, options) =>
    picker(`roll-call-${part}`, label, options, `${picture[part]}`, (value) => {
      picture[part] = part === "order" ? value : Number(value);
      change(part)();
    });
  const choices = [];
  if (able.length > 1)
    choices.push(
      choose(
        "run",
        "run",
        able.map((index) => [`${index}`, runMark(index) + runs[index].title]),
      ),
    );
  if (run.roll_calls.length > 1)
    choices.push(
      choose(
        "call",
        "seen by",
        run.roll_calls.map((call, k) => [`${k}`, call.algorithms.join(", ")]),
      ),
    );
  if (theCall().seeds.length > 1)
    choices.push(
      choose(
        "seed",
        "seed",
        theCall().seeds.map((one, k) => [`${k}`, `${one.seed}`]),
      ),
    );
  choices.push(
    choose(
      "order",
      "clients",
      Object.entries(ORDERS).filter(([key]) => key !== "held" || run.clients.held),
    ),
  );
  at("roll-call-choices").replaceChildren(...choices);
}

/** What is known of a client, by its number. */
function clientsKnown() {
  const { ids = [], held = [], labels = null } = runs[picture.run].clients;
  return new Map(ids.map((id, k) => [id, { held: held[k], counts: labels?.counts[k] }]));
}

async function showAttendance(plotly) {
  const [call, seed, run] = [theCall(), theSeed(), runs[picture.run]];
  const packed = new Uint8Array(await (await unpacked(seed.cells)).arrayBuffer());
  const width = Math.ceil(call.rounds / call.together);
  const stride = Math.ceil(width / 4);
  const known = clientsKnown();
  const rows = seed.clients.map((id, k) => ({
    id,
    place: k,
    answered: seed.answered[k],
    silenced: seed.silenced[k],
    ...known.get(id),
  }));
  const orders = {
    silenced: (a, b) => b.silenced - a.silenced || a.id - b.id,
    held: (a, b) => b.held - a.held || a.id - b.id,
    id: (a, b) => a.id - b.id,
  };
  rows.sort(orders[picture.order]);
  picture.cells = { width, state: (row, column) => (packed[row * stride + (column >> 2)] >> (2 * (column & 3))) & 3 };
  picture.rows = rows;
  picture.cursor = null;
  at("cell").textContent = "Point at the picture, or press arrow keys in it, for a client and a round.";
  describeAttendance(call, seed, run);
  paint();
  tellClients();
  const ready = await plotly;
  await drawEpsilon(ready, call, seed);
  await drawLabels(ready, seed, run);
}

function describeAttendance(call, seed, run) {
  const [answered, silenced] = [total(seed.answered), total(seed.silenced)];
  const never = picture.rows.filter((row) => row.silenced && !row.answered).length;
  const all = run.algorithms.length === call.algorithms.length;
  const whose =
    all && call.algorithms.length > 1
      ? "All algorithms of the run saw this roll call"
      : `Seen by ${listed(call.algorithms)}`;
  const few =
    picture.rows.length < run.clients.count
      ? ` Of ${plural(run.clients.count, "client")} the ${picture.rows.length} silenced most often are shown.`
      : "";
  const wide = call.together > 1 ? ` A column is ${call.together} rounds.` : "";
  const silent = never ? `; ${never === 1 ? "one client was" : `${never} clients were`} called and never heard` : "";
  at("roll-call-lead").textContent =
    `Each row is a client, each column a round. ${whose}. ${few ? "Those shown were" : "Clients were"} called ${(answered + silenced).toLocaleString("en")} times and silenced in ${percent(silenced / (answered + silenced))} of them${silent}.${few}${wide}`;
  const key = [
    ["--answered", "answered"],
    ["--silenced", "silenced"],
    ["--card", "not sampled"],
  ].map(([name, word]) => make("li", {}, make("i", { style: `background: var(${name})` }), word));
  const labels = run.clients.labels;
  if (labels)
    labels.names.forEach((name, k) =>
      key.push(make("li", {}, make("i", { style: `background: ${labelColour(k)}` }), `label ${name}`)),
    );
  at("roll-call-key").replaceChildren(...key);
  at("picture").setAttribute(
    "aria-label",
    `Roll call of ${picture.rows.length} clients over ${call.rounds} rounds. Arrow keys move from cell to cell; the table below holds the totals.`,
  );
}

function cellUnder(event) {
  const { geometry: g, rows, cells } = picture;
  if (!g) return null;
  const box = at("picture").getBoundingClientRect();
  const row = Math.floor((event.clientY - box.top - g.top) / g.height);
  const column = Math.floor(((event.clientX - box.left - g.left) / g.width) * cells.width);
  if (row < 0 || row >= rows.length) return null;
  return { row, column: Math.min(Math.max(column, 0), cells.width - 1) };
}

function moveCursor(event) {
  const steps = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
    Home: [0, -Infinity],
    End: [0, Infinity],
  };
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  const { row, column } = picture.cursor ?? { row: 0, column: 0 };
  const within = (value, most) => Math.min(Math.max(value, 0), most - 1);
  pointAt({ row: within(row + step[0], picture.rows.length), column: within(column + step[1], picture.cells.width) });
}

function pointAt(cell) {
  picture.cursor = cell;
  paintCursor();
  if (!cell) return;
  const row = picture.rows[cell.row];
  const { together, rounds } = theCall();
  const first = cell.column * together;
  const when = together > 1 ? `rounds ${first} to ${Math.min(first + together, rounds) - 1}` : `round ${first}`;
  const state = ["not sampled", "answered", "silenced"][picture.cells.state(row.place, cell.column)];
  const held = row.held === undefined ? "" : `, holds ${plural(row.held, "example")}`;
  at("cell").textContent =
    `Client ${row.id}, ${when}: ${state}. In all answered ${row.answered} and silenced ${row.silenced} of ${plural(row.answered + row.silenced, "call")}${held}${mainLabels(row)}.`;
}

function mainLabels(row) {
  if (!row.counts) return "";
  const { names } = runs[picture.run].clients.labels;
  const held = total(row.counts);
  const first = row.counts
    .map((count, k) => [count, k])
    .sort((a, b) => b[0] - a[0])
    .slice(0, 3)
    .filter(([count]) => count);
  return `, mostly ${first.map(([count, k]) => `label ${names[k]} (${Math.round((100 * count) / held)} %)`).join(", ")}`;
}

function tellClients() {
  const columns = [
    { title: "client", cell: (row) => ({ text: `${row.id}`, value: row.id }) },
    ...(picture.rows[0]?.held === undefined
      ? []
      : [{ title: "examples held", cell: (row) => ({ text: row.held.toLocaleString("en"), value: row.held }) }]),
    {
      title: "called",
      cell: (row) => ({ text: `${row.answered + row.silenced}`, value: row.answered + row.silenced }),
    },
    { title: "answered", cell: (row) => ({ text: `${row.answered}`, value: row.answered }) },
    { title: "silenced", cell: (row) => ({ text: `${row.silenced}`, value: row.silenced }) },
    {
      title: "share silenced",
      cell: (row) => {
        const called = row.answered + row.silenced;
        return called ? { text: percent(row.silenced / called), value: row.silenced / called } : { text: "–" };
      },
    },
  ];
  at("clients-table").replaceChildren(sortableTable(columns, picture.rows, "Clients"));
}

// The two charts beside it.

async function drawEpsilon(plotly, call, seed) {
  const rounds = seed.epsilon_t.map((_, k) => k * call.together);
  const limit = call.law === null ? [] : [call.law];
  const highest = Math.max(0.01, ...limit, ...seed.epsilon_t);
  const over = limit.length ? seed.epsilon_t.filter((used) => used > call.law * (1 + 1e-6)).length : 0;
  const kept = over ? `and is broken ${over} times` : "and is kept in every round";
  const words = limit.length ? `The law allows ${call.law}, ${kept}.` : "The law was off in this run.";
  at("epsilon-note").textContent =
    `${words} Mean ${number(seed.mean_epsilon_t)}, seed ${seed.seed}${call.together > 1 ? `; a dot is the highest of ${call.together} rounds` : ""}.`;
  const place = at("epsilon");
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Share of the data silenced in each round. ${at("epsilon-note").textContent}`);
  await plotly.react(
    place,
    [
      {
        type: "scatter",
        mode: "markers",
        x: rounds,
        y: seed.epsilon_t,
        marker: { color: "#6f7480", size: 3.5, opacity: 0.65 },
        hovertemplate: "round %{x}: %{y:.4~f}<extra></extra>",
      },
    ],
    layout({
      hovermode: "closest",
      xaxis: { title: { text: "round", standoff: 8 } },
      yaxis: { range: [0, highest * 1.08] },
      shapes: limit.map((law) => ({
        type: "line",
        xref: "paper",
        x0: 0,
        x1: 1,
        y0: law,
        y1: law,
        line: { width: 1.6 },
      })),
      annotations: limit.map((law) => ({
        xref: "paper",
        x: 1,
        y: law,
        xanchor: "right",
        yanchor: "top",
        text: "the law",
        showarrow: false,
      })),
    }),
    PLAIN,
  );
}

async function drawLabels(plotly, seed, run) {
  const place = at("labels");
  const names = run.clients.labels?.names;
  at("labels-figure").hidden = !names && !run.no_data;
  if (!names) {
    at("labels-note").textContent = run.no_data ? `The clients’ data are not here to be counted: ${run.no_data}` : "";
    plotly.purge(place);
    place.hidden = true;
    return;
  }
  place.hidden = false;
  at("labels-note").textContent =
    "Shares of the labels in everybody’s data, in what was heard and in what was silenced; clients count by their data, each time they are called.";
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", "Shares of the labels among all clients, those heard and those silenced.");
  const bars = [
    ["everybody", "everybody", "#8b8f99"],
    ["answered", "heard", "#2f8f6b"],
    ["silenced", "silenced", "#c2321f"],
  ];
  await plotly.react(
    place,
    bars
      .filter(([key]) => seed.labels[key].length)
      .map(([key, name, colour]) => ({
        type: "bar",
        name,
        x: names,
        y: seed.labels[key],
        marker: { color: colour },
        hovertemplate: "%{y:.1%}",
      })),
    layout({
      hovermode: "x unified",
      barmode: "group",
      bargap: 0.25,
      showlegend: true,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      xaxis: { type: "category", title: { text: "label", standoff: 8 } },
      yaxis: { tickformat: ".0%" },
    }),
    PLAIN,
  );
}
