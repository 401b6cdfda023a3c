// The picture of a roll call: label shares on the left, the rounds, and each client's totals on the right.

/** Draw it anew: other rows, another width or other colours. */
function paint() {
  const canvas = at("picture");
  if (!picture.cells || !canvas.clientWidth) return;
  const g = (picture.geometry = geometryOf(canvas.clientWidth, picture.rows));
  const ratio = devicePixelRatio || 1;
  const [width, height] = [Math.round(g.wide * ratio), Math.round((g.bottom + 24) * ratio)];
  canvas.style.height = `${g.bottom + 24}px`;
  Object.assign(canvas, { width, height });
  picture.still = make("canvas", { width, height });
  const draw = picture.still.getContext("2d");
  draw.scale(ratio, ratio);
  draw.font = "11px system-ui, sans-serif";
  draw.textBaseline = "middle";
  draw.imageSmoothingEnabled = false;
  const colours = coloursNow();
  draw.drawImage(imageOfRounds(Math.round(g.width * ratio), colours), g.left, g.top, g.width, g.bottom - g.top);
  picture.rows.forEach((row, k) => paintClient(draw, row, g.top + k * g.height, g, colours));
  paintWords(draw, g, colours);
  paintCursor();
}

/** Put the picture on the page, with a cross where the reader points. */
function paintCursor() {
  const canvas = at("picture");
  if (!picture.still) return;
  const draw = canvas.getContext("2d");
  draw.setTransform(1, 0, 0, 1, 0, 0);
  draw.clearRect(0, 0, canvas.width, canvas.height);
  draw.drawImage(picture.still, 0, 0);
  if (!picture.cursor) return;
  const { geometry: g, cursor } = picture;
  const x = g.left + ((cursor.column + 0.5) / picture.cells.width) * g.width;
  draw.scale(canvas.width / g.wide, canvas.width / g.wide);
  draw.strokeStyle = coloursNow().ink;
  draw.strokeRect(0.5, g.top + cursor.row * g.height - 0.5, g.wide - 1, g.height);
  draw.strokeRect(x - 1.5, g.top - 3, 3, g.bottom - g.top + 6);
}

/** Where things are, in CSS pixels. */
function geometryOf(wide, rows) {
  const narrow = wide < 560;
  const height = Math.max(2, Math.min(16, Math.floor(560 / rows.length)));
  const numbers = height >= 10 ? 30 : 8;
  const labels = rows[0]?.counts ? (narrow ? 34 : 90) : 0;
  const totals = narrow ? 70 : 150;
  const left = numbers + labels + (labels ? 8 : 0);
  const [top, width] = [26, wide - left - totals - 8];
  const most = Math.max(1, ...rows.map((row) => row.answered + row.silenced));
  return { wide, narrow, height, numbers, labels, totals, left, top, width, most, bottom: top + rows.length * height };
}

function coloursNow() {
  const style = getComputedStyle(document.documentElement);
  const [ink, ground, green, red] = ["--quiet", "--grid", "--answered", "--silenced"].map((name) =>
    style.getPropertyValue(name).trim(),
  );
  return { ink, ground, green, red };
}

function paintClient(draw, row, y, g, { ink, green, red }) {
  const high = g.height > 3 ? g.height - 1 : g.height;
  const bars = (x, widths) => {
    for (const [width, colour] of widths) {
      draw.fillStyle = colour;
      draw.fillRect(x, y, width, high);
      x += width;
    }
  };
  if (row.counts) {
    const held = total(row.counts);
    bars(
      g.numbers,
      row.counts.map((count, label) => [(g.labels * count) / held, labelColour(label)]),
    );
  }
  const long = (times) => ((g.totals - 14) * times) / g.most;
  bars(g.left + g.width + 8, [
    [long(row.answered), green],
    [long(row.silenced), red],
  ]);
  if (g.height >= 10) {
    draw.fillStyle = ink;
    draw.fillText(`${row.id}`, 6, y + g.height / 2);
  }
}

function paintWords(draw, g, { ink }) {
  const { rounds } = theCall();
  draw.fillStyle = ink;
  if (g.labels) draw.fillText(g.narrow ? "data" : "labels held", g.numbers, 13);
  draw.fillText(g.narrow ? "rounds" : "rounds, from the first to the last", g.left, 13);
  draw.fillText(g.narrow ? "times" : "times answered, silenced", g.left + g.width + 8, 13);
  const step = roundStep(rounds / (g.narrow ? 2 : 5));
  for (let round = 0; round < rounds; round += step) {
    draw.textAlign = round ? "center" : "left";
    draw.fillText(`${round}`, g.left + ((round + 0.5) / rounds) * g.width, g.bottom + 12);
  }
  draw.textAlign = "right";
  draw.fillText(`${g.most}`, g.wide - 14, g.bottom + 12);
}

/** The next of 1, 2, 5, 10, … */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}

/** Clients x rounds, at most so many pixels wide; a pixel that stands for several rounds mixes their colours. */
function imageOfRounds(pixels, { green, red, ground }) {
  const { rows, cells } = picture;
  const width = Math.max(1, Math.min(pixels, cells.width));
  const image = new ImageData(width, rows.length);
  const [g, r, n] = [green, red, ground].map(channels);
  let byte = 0;
  rows.forEach((row, k) => {
    for (let x = 0; x < width; x++) {
      const from = Math.floor((x * cells.width) / width);
      const to = Math.floor(((x + 1) * cells.width) / width);
      let [answered, silenced] = [0, 0];
      for (let column = from; column < to; column++) {
        const state = cells.state(row.place, column);
        answered += state === 1;
        silenced += state === 2;
      }
      const called = answered + silenced;
      for (let c = 0; c < 3; c++) image.data[byte++] = called ? (g[c] * answered + r[c] * silenced) / called : n[c];
      image.data[byte++] = called ? 255 * (0.45 + (0.55 * called) / (to - from)) : k % 2 ? 90 : 0;
    }
  });
  const canvas = make("canvas", { width, height: rows.length });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

function channels(colour) {
  return [1, 3, 5].map((start) => parseInt(colour.slice(start, start + 2), 16));
}
