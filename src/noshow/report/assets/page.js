// What all parts of the page share: its contents, elements, numbers in words, and what the reader has chosen to see.

const contents = JSON.parse(document.getElementById("contents").textContent);
const { runs, styles } = contents;
const METRICS = {
  train_loss: { title: "Train loss", logarithmic: true },
  test_loss: { title: "Test loss", logarithmic: true },
  test_accuracy: { title: "Test accuracy", logarithmic: false },
  gradient_norm: { title: "Gradient norm ‖∇F‖", logarithmic: true },
};
const LEVEL = `${Math.round(contents.level * 100)} %`;
const ALGORITHMS = Object.keys(styles).filter((name) => runs.some((run) => algorithmOf(run, name)));
const MARKERS = ["circle", "square", "diamond", "triangle-up", "cross", "star", "x", "hexagon"];
const GLYPHS = ["●", "■", "◆", "▲", "✚", "★", "✖", "⬢"];

const shown = { algorithms: new Set(ALGORITHMS), runs: new Set(runs.keys()) };

function algorithmOf(run, name) {
  return run.algorithms.find((algorithm) => algorithm.name === name);
}

function at(id) {
  return document.getElementById(id);
}

/** An element with attributes, and children that are elements or text: text is never read as HTML. */
function make(tag, attributes = {}, ...children) {
  const drawn = ["svg", "line"].includes(tag);
  const element = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const exponential = size !== 0 && (size < 0.0001 || size >= 100000);
  const text = exponential ? value.toExponential(3).replace("e+", "e") : value.toFixed(size >= 1000 ? 1 : 4);
  return text.replaceAll("-", "−");
}

function signed(value) {
  return (value > 0 ? "+" : "") + number(value);
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function total(numbers) {
  return numbers.reduce((sum, value) => sum + value, 0);
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

function listed(words) {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
}

/** A short piece of an algorithm's line. */
function swatch(name) {
  const dashes = { solid: "", dash: "6 3", dot: "2 3", dashdot: "6 3 2 3" };
  const line = make("line", {
    x1: 1,
    y1: 5,
    x2: 25,
    y2: 5,
    "stroke-width": 2.5,
    stroke: styles[name].colour,
    "stroke-dasharray": dashes[styles[name].dash],
  });
  return make("svg", { width: 26, height: 10, "aria-hidden": "true" }, line);
}

function runMark(index) {
  return runs.length > 1 ? `${GLYPHS[index % GLYPHS.length]} ` : "";
}

/** A labelled list to choose from; `options` are pairs of a value and its name. */
function picker(id, label, options, chosen, onchange) {
  const select = make("select", { id, onchange: () => onchange(select.value) });
  for (const [value, name] of options) select.append(make("option", { value, selected: value === chosen }, name));
  return make("label", { class: "pick", for: id }, make("span", {}, label), select);
}

async function unpacked(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k++) bytes[k] = letters.charCodeAt(k);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream);
}

/** Plotly, out of the page itself; the page's policy knows it by its hash. */
async function loadPlotly() {
  const code = await (await unpacked(at("plotly").textContent)).text();
  document.head.append(make("script", {}, code));
  return window.Plotly;
}

// Words at the head and the foot of the page.

function drawHead() {
  at("title").textContent = runs.length > 1 ? `${runs.length} runs compared` : runs[0].title;
  for (const [index, run] of runs.entries()) {
    const text = [runs.length > 1 && runMark(index) + run.title, run.description].filter(Boolean).join(": ");
    if (text) at("summaries").append(make("p", {}, text));
    const facts = [
      plural(run.clients.count, "client"),
      `${run.sampled} sampled a round`,
      run.adversary && `adversary ${run.adversary}`,
      run.law === null ? "no law" : `law ε = ${run.law}`,
      `${plural(run.algorithms.length, "algorithm")}`,
      plural(run.seeds.length, "seed"),
    ];
    at("summaries").append(make("p", { class: "facts" }, facts.filter(Boolean).join(" · ")));
  }
  for (const section of document.querySelectorAll("main > section")) {
    if (!section.hidden)
      at("sections").append(make("a", { href: `#${section.id}` }, section.querySelector("h2").textContent));
  }
  at("footer").textContent =
    `Made by noshow ${contents.made.noshow}, ${contents.made.when}. This file holds everything it shows and asks the network for nothing. Charts: plotly.js (MIT licence).`;
}

function drawNotices() {
  const say = (...words) => at("notices").append(make("li", {}, ...words));
  for (const run of runs) {
    const whose = runs.length > 1 ? `${run.title}: ` : "";
    if (run.missing.length) {
      const far = run.missing.map(
        (one) => `${one.name} (${one.round ? `at ${one.round}` : "not begun,"} of ${plural(one.rounds, "round")})`,
      );
      say(
        `${whose}this run is not finished. Missing: ${listed(far)}. What is finished is shown; `,
        make("code", {}, `noshow run ${run.folder}/spec.toml --out ${run.folder}`),
        " goes on.",
      );
    }
    for (const algorithm of run.algorithms) {
      if (!algorithm.diverged.length) continue;
      const seeds = algorithm.diverged.map((one) => `seed ${one.seed} by round ${one.round}`);
      say(`${whose}${algorithm.name} diverged (${listed(seeds)}): its curves end there, and it has no final numbers.`);
    }
  }
  at("notices").hidden = !at("notices").children.length;
}

function drawBounds() {
  at("bounds").hidden = !runs.some((run) => run.folder);
  for (const run of runs.filter((one) => one.folder)) {
    const card = make("div", { class: "card" }, make("h3", {}, run.title));
    if (run.bounds) {
      const words = `Mean square gradients of ${run.title} over rounds, between the floor and the ceilings`;
      card.append(
        make(
          "p",
          {},
          "Measured mean square gradients, the ceilings that the theorems give (dotted) and the floor of the worst problem with the same constants.",
        ),
        make("img", { src: run.bounds, alt: words }),
      );
    } else {
      card.append(
        make(
          "p",
          {},
          "Not computed for this run. ",
          make("code", {}, `noshow bounds ${run.folder}`),
          " plays it again with diagnostics and leaves the picture that the next report shows here.",
        ),
      );
    }
    at("bounds-body").append(card);
  }
}

function drawOrigin() {
  for (const [index, run] of runs.entries()) {
    const facts = make("dl");
    const recorded = [...(run.folder ? [["folder", run.folder]] : []), ["seeds", run.seeds.join(", ")], ...run.about];
    for (const [key, value] of recorded) facts.append(make("dt", {}, key), make("dd", {}, value));
    const halves = make("div", { class: "two" }, facts);
    if (run.spec) halves.append(specOf(run));
    at("origin-body").append(make("div", { class: "card" }, make("h3", {}, runMark(index) + run.title), halves));
  }
}

function specOf(run) {
  const spec = make("pre", { tabindex: "0", role: "region", "aria-label": `Spec of ${run.title}` }, run.spec);
  const copy = make("button", { type: "button", class: "copy", onclick: () => copyText(run.spec, spec, copy) }, "Copy");
  const head = make("span", {}, "The resolved spec: a file that runs it again");
  return make("div", {}, make("div", { class: "spec-head" }, head, copy), spec);
}

async function copyText(text, element, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(element);
    button.textContent = "Selected: copy it with your keys";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 2500);
}
