// Asks how the run stands, once a second, and takes in a new report whenever there are other results.

const SECOND = 1000;
const MARKS = { done: "✓", running: "▶", stopped: "■", waiting: "·" };
const at = (id) => document.getElementById(id);
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

let frame = null;
let shown = null;
let taking = false;

/** An element with a class and children that are elements or text: text is never read as HTML. */
function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

function digits(value, count) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 1000 ? value.toFixed(count) : value.toExponential(2);
}

function rateOf(value) {
  return value === null ? "–" : value.toFixed(value >= 1000 ? 0 : value >= 1 ? 1 : 3);
}

/** Words, with what stands between backticks as code. */
function spoken(sentence) {
  return sentence.split("`").map((part, k) => (k % 2 ? make("code", "", part) : part));
}

function drawPanel(status) {
  document.title = `${status.title} – noshow`;
  at("sentence").replaceChildren(...spoken(status.sentence));
  at("sentence").className = status.algorithms.some((one) => one.state === "running") || status.finished ? "" : "alarm";
  at("algorithms").replaceChildren(
    ...status.algorithms.map((one) => make("li", one.state, `${MARKS[one.state]} ${one.label}`)),
  );
  const now = status.algorithms.find((one) => one.state === "running" || one.state === "stopped");
  at("now").hidden = !now;
  if (now) drawNow(now);
}

function drawNow(one) {
  at("label").textContent = one.label;
  at("rounds").textContent = `round ${one.round} of ${one.rounds}`;
  at("note").textContent = one.note;
  at("bar").value = one.rounds ? one.round / one.rounds : 0;
  const numbers = [
    ["rounds a second", one.state === "running" ? rateOf(one.rate) : "–"],
    ["time left", one.left ?? "–"],
    ["train loss", digits(one.train_loss, 4)],
    ["test accuracy", digits(one.test_accuracy, 4)],
    [make("span", "", "ε", make("sub", "", "t")), digits(one.epsilon_t, 3)],
  ];
  at("numbers").replaceChildren(
    ...numbers.map(([name, value]) => make("div", "", make("dt", "", name), make("dd", "", value))),
  );
  at("silent").replaceChildren(...silence(one));
}

function silence(one) {
  if (!one.round) return ["Nobody has been called yet."];
  if (!one.silenced) return [`Nobody is silent, of ${one.sampled} called.`];
  const rest = one.silenced > one.silent.length ? " …" : "";
  const seeds = one.seeds > 1 ? `, in the first of ${one.seeds} seeds` : "";
  const who = `${one.silent.join(", ")}${rest}`;
  return [make("b", "", "Silent"), ` (${one.silenced} of ${one.sampled} called${seeds}): ${who}`];
}

// The report.

/** What the reader has chosen in a report, by the names of what holds it. */
function chosen(page) {
  return {
    theme: page.documentElement.dataset.theme,
    scroll: page.defaultView.scrollY,
    open: [...page.querySelectorAll("details[open]")].map((one) => one.id),
    picked: new Map([...page.querySelectorAll("select")].map((one) => [one.id, one.value])),
    ticked: new Map([...page.querySelectorAll(".chip input")].map((box) => [nameOf(box), box.checked])),
  };
}

function nameOf(box) {
  return `${box.closest("fieldset").querySelector("legend").textContent}: ${box.value}`;
}

function choose(page, { theme, scroll, open, picked, ticked }) {
  if (page.documentElement.dataset.theme !== theme) page.getElementById("theme").click();
  for (const id of open) page.getElementById(id)?.setAttribute("open", "");
  for (const box of page.querySelectorAll(".chip input")) {
    if ((ticked.get(nameOf(box)) ?? box.checked) !== box.checked) box.click();
  }
  for (const select of page.querySelectorAll("select")) {
    const before = picked.get(select.id);
    if (before === select.value || ![...select.options].some(({ value }) => value === before)) continue;
    select.value = before;
    select.dispatchEvent(new Event("change"));
  }
  page.defaultView.scrollTo({ top: scroll, behavior: "instant" });
}

/** The panel says how far the run is, and goes on saying it: the report's own notice of that makes way. */
function drawWithin(page) {
  page.head.append(make("style", "", "#notices li:has(code) { display: none; }"));
  page.defaultView.addEventListener("theme", follow);
  follow();
}

function follow() {
  root.dataset.theme = frame?.contentDocument?.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
}

/** When a report has drawn itself; one that never says so counts after some seconds. */
async function drawn(page) {
  for (let waited = 0; waited < 20 * SECOND && !page.documentElement.dataset.ready; waited += 50)
    await new Promise((done) => setTimeout(done, 50));
}

/** Load the report beneath the one that is shown, and let them change places once it looks the same;
 * whether there was one. */
async function loadReport() {
  const coming = make("iframe", "coming");
  coming.title = "Report of what is finished";
  coming.src = "/report";
  const loaded = new Promise((done) => coming.addEventListener("load", done, { once: true }));
  at("reports").append(coming);
  await loaded;
  const page = coming.contentDocument;
  if (!page?.getElementById("contents")) {
    if (!frame) at("placeholder").textContent = page?.body.textContent ?? "";
    coming.remove();
    return false;
  }
  await drawn(page);
  if (frame) choose(page, chosen(frame.contentDocument));
  coming.className = "";
  frame?.remove();
  frame = coming;
  at("placeholder").hidden = true;
  drawWithin(page);
  return true;
}

/** Take in the report of these results; one that is not to be had is asked for again. */
async function takeIn(results) {
  taking = true;
  if (await loadReport()) shown = results;
  else await new Promise((done) => setTimeout(done, 5 * SECOND));
  taking = false;
}

async function ask() {
  try {
    const status = await (await fetch("/status", { cache: "no-store" })).json();
    drawPanel(status);
    if (typeof status.results === "string" && status.results !== shown && !taking) takeIn(status.results);
  } catch {
    const ended = "Nobody answers: this is the last that was known. `noshow watch` has ended.";
    at("sentence").replaceChildren(...spoken(ended));
    at("sentence").className = "alarm";
  }
  setTimeout(ask, SECOND);
}

system.addEventListener("change", follow);
follow();
ask();
