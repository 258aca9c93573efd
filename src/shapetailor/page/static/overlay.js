/** Label frames: decoded and coloured in the worker, the newest wins; drawn over the picture. */
import { getMap, getTable } from "./api.js";
import { say } from "./messages.js";
import { changed, classes, on, shownFrame, shownSource, state } from "./state.js";
import { view, viewport } from "./view.js";

const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
const waiting = /** @type {Map<number, {resolve: Function, reject: Function}>} */ (new Map());
let asked = 0;

worker.onmessage = ({ data: { id, answer, error } }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  if (error) reject(new Error(error));
  else resolve(answer);
};

/** @returns {Promise<any>} */
function ask(kind, content, moved = []) {
  asked += 1;
  worker.postMessage({ id: asked, kind, ...content }, moved);
  return new Promise((resolve, reject) => waiting.set(asked, { resolve, reject }));
}

/** Colours by value as the worker wants them. */
function classColours() {
  const colours = new Uint32Array(256);
  for (const { value, color } of classes()) {
    const rgb = Number.parseInt(color.slice(1), 16);
    colours[value] = ((255 << 24) | ((rgb & 255) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
  }
  return colours;
}

/** Take a label frame of the socket or of a request. @param {any} header @param {ArrayBuffer} bytes */
async function take(source, header, bytes) {
  const colours = header.stage === "evolving" ? null : classColours();
  const painted = await ask("labels", { bytes, colours }, [bytes]);
  if (header.picture !== state.picture?.name) return;
  dropBitmaps(source);
  state.frames[source] = { ...header, ...painted, grain: grainOf(header, painted.columns, painted.rows) };
  changed("frame");
}

/** Pixels of the picture for one of the map's, across and down: `scale`, unless the map was made by stretching. */
function grainOf({ width, height, scale }, columns, rows) {
  const whole = (size, count) => count === Math.ceil(size / scale);
  return whole(width, columns) && whole(height, rows) ? [scale, scale] : [width / columns, height / rows];
}

const queue = { running: false, next: /** @type {any} */ (null) };

/** A frame of the socket; while one is decoded, only the newest waits. */
export async function takeLive(header, bytes) {
  if (header.type === "uncertainty") return takeUncertainty("live", header, bytes);
  queue.next = [header, bytes];
  if (queue.running) return;
  queue.running = true;
  while (queue.next) {
    const [newest, content] = queue.next;
    queue.next = null;
    await take("live", newest, content).catch((error) => say(error.message, "error"));
  }
  queue.running = false;
}

async function takeUncertainty(source, header, bytes) {
  const { bitmap } = await ask("uncertainty", { bytes }, [bytes]);
  if (header.picture !== state.picture?.name) return bitmap.close();
  state.uncertainty[source]?.bitmap.close();
  state.uncertainty[source] = { bitmap, grain: grainOf(header, bitmap.width, bitmap.height) };
  return changed("view");
}

/** Fetch what "Apply" wrote for the picture on view. */
export async function fetchApplied() {
  const { name, width, height } = state.picture;
  try {
    const [map, table] = await Promise.all([getMap(name, "labels", "applied"), getTable(name, "applied")]);
    const header = { picture: name, width, height, revision: state.revision, stage: "applied", iteration: null, energy: null };
    await take("applied", { ...header, scale: map.scale, table: table.rows }, map.bytes);
    const unsure = await getMap(name, "uncertainty", "applied");
    await takeUncertainty("applied", { ...header, scale: unsure.scale }, unsure.bytes);
  } catch (error) {
    if (name === state.picture?.name) say(error.message, "error");
  }
}

/** Forget a frame and where it was unsure. @param {"live"|"applied"} source */
export function closeFrame(source) {
  dropBitmaps(source);
  state.uncertainty[source]?.bitmap.close();
  state.uncertainty[source] = null;
}

function dropBitmaps(source) {
  state.frames[source]?.fill.close();
  state.frames[source]?.lines.close();
  state.frames[source] = null;
}

/** Forget the frames of the former picture. */
export function closeFrames() {
  closeFrame("live");
  closeFrame("applied");
}

/** Classes have other colours: paint the frames anew. */
async function recolour() {
  for (const source of /** @type {const} */ (["live", "applied"])) {
    const frame = state.frames[source];
    if (!frame || frame.stage === "evolving") continue;
    const colours = classColours();
    if (colours.every((colour, value) => colour === frame.palette[value])) continue;
    const { values, columns, rows } = frame;
    const painted = await ask("repaint", { values, columns, rows, colours });
    if (state.frames[source] === frame) Object.assign(frame, painted, { palette: colours });
  }
  changed("view");
}
on(["project"], () => void recolour());

/** Draw labels, outlines and uncertainty; the context's origin is the viewport's. */
export function drawOverlay(context) {
  const frame = shownFrame();
  if (!frame || !state.overlayShown) return;
  const place = placeOf(frame.grain, frame.columns, frame.rows);
  const size = frame.grain[0] * view.scale;
  context.imageSmoothingEnabled = size < 1; // shrunk maps look torn without
  context.globalAlpha = state.opacity;
  if (!state.outlinesOnly) context.drawImage(frame.fill, ...place);
  context.globalAlpha = state.outlinesOnly ? 1 : Math.min(1, state.opacity + 0.2);
  if (size * frame.step < 3) {
    const grain = frame.grain.map((each) => each * frame.step);
    context.drawImage(frame.lines, ...placeOf(grain, frame.lines.width, frame.lines.height));
  } else drawEdges(context, frame);
  context.globalAlpha = 1;
  const unsure = state.uncertainty[shownSource()];
  if (state.unsure && unsure && frame.stage !== "evolving") drawHatch(context, unsure);
}

/** Where a map of so many columns and rows lies in the viewport. @returns {[number, number, number, number]} */
const placeOf = ([across, down], columns, rows) => [
  -view.x * view.scale,
  -view.y * view.scale,
  columns * across * view.scale,
  rows * down * view.scale,
];

/** Close by, outlines are lines of constant width: only the edges in view, found anew for each frame. */
function drawEdges(context, frame) {
  const { values, columns, rows } = frame;
  const [wide, high] = frame.grain.map((size) => size * view.scale);
  const first = (start, size) => Math.max(0, Math.floor((start * view.scale) / size) - 1);
  const last = (start, length, size, count) => Math.min(count, Math.ceil((start * view.scale + length) / size) + 1);
  const [left, right] = [first(view.x, wide), last(view.x, viewport.width, wide, columns)];
  const [top, bottom] = [first(view.y, high), last(view.y, viewport.height, high, rows)];
  const path = new Path2D();
  for (let row = top; row < bottom; row += 1) {
    for (let x = left; x < right; x += 1) {
      const at = row * columns + x;
      const [px, py] = [x * wide - view.x * view.scale, row * high - view.y * view.scale];
      if (x + 1 < columns && values[at] !== values[at + 1]) {
        path.moveTo(px + wide, py);
        path.lineTo(px + wide, py + high);
      }
      if (row + 1 < rows && values[at] !== values[at + columns]) {
        path.moveTo(px, py + high);
        path.lineTo(px + wide, py + high);
      }
    }
  }
  context.lineCap = "square";
  context.strokeStyle = "#000";
  context.lineWidth = 3;
  context.stroke(path);
  context.strokeStyle = "#fff";
  context.lineWidth = 1.5;
  context.stroke(path);
}

const hatch = { canvas: new OffscreenCanvas(1, 1), pattern: /** @type {CanvasPattern|null} */ (null) };

/** Hatch by uncertainty: seen on light and dark, and unlike any class's colour. */
function drawHatch(context, { bitmap, grain }) {
  const { width, height } = viewport;
  if (hatch.canvas.width !== Math.ceil(width) || hatch.canvas.height !== Math.ceil(height)) {
    hatch.canvas = new OffscreenCanvas(Math.ceil(width), Math.ceil(height));
    hatch.pattern = null;
  }
  const target = hatch.canvas.getContext("2d");
  hatch.pattern ??= target.createPattern(hatchTile(), "repeat");
  target.globalCompositeOperation = "copy";
  target.fillStyle = hatch.pattern;
  target.fillRect(0, 0, width, height);
  target.globalCompositeOperation = "destination-in";
  target.drawImage(bitmap, ...placeOf(grain, bitmap.width, bitmap.height));
  context.drawImage(hatch.canvas, 0, 0);
}

function hatchTile() {
  const tile = new OffscreenCanvas(8, 8);
  const context = tile.getContext("2d");
  for (const [colour, shift] of [["#fff", 0], ["#000", 3]]) {
    context.strokeStyle = String(colour);
    context.lineWidth = 2;
    for (const offset of [-8, 0, 8]) {
      context.beginPath();
      context.moveTo(offset + Number(shift) - 2, 10);
      context.lineTo(offset + Number(shift) + 10, -2);
      context.stroke();
    }
  }
  return tile;
}
