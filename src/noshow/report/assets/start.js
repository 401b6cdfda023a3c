// Words, tables and the roll call first; then plotly, which takes a second to start, and the charts.

/** When what there is has been painted. */
function painted() {
  return new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
}

async function startPlotly() {
  if (typeof DecompressionStream !== "function") throw new Error("it has no DecompressionStream");
  await painted();
  return loadPlotly();
}

function fitToPaper(plotly) {
  const plots = () => document.querySelectorAll(".js-plotly-plot");
  addEventListener("beforeprint", () => plots().forEach((plot) => plotly.relayout(plot, { width: 308, height: 230 })));
  addEventListener("afterprint", () =>
    plots().forEach((plot) => plotly.relayout(plot, { width: undefined, height: undefined, autosize: true })),
  );
}

async function start() {
  const plotly = startPlotly();
  drawNotices();
  drawCurveFrames();
  drawChoices(plotly);
  drawNumbers();
  drawPaired();
  drawBounds();
  drawOrigin();
  const charts = [drawCurves(plotly), drawAttendance(plotly)];
  drawHead();
  await Promise.all(charts);
  fitToPaper(await plotly);
  document.documentElement.dataset.ready = `${Math.round(performance.now())}`;
}

/** Tables need nothing; what needs unpacking makes way for a sentence. */
function doWithoutCharts(error) {
  for (const part of [...document.querySelectorAll("#charts, #choices, #curves-lead"), at("roll-call")])
    part.hidden = true;
  const why = `This browser cannot draw the charts (${error.message}): one from 2023 or later can.`;
  at("notices").append(make("li", {}, `${why} The tables of numbers are complete.`));
  at("notices").hidden = false;
}

start().catch(doWithoutCharts);
