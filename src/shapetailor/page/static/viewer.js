/**
 * The viewer: three canvases of the viewport's size on top of each other, each drawn anew only when it has changed.
 * `#base` has the picture's tiles and the labels, `#marks` the strokes, `#pen` the stroke under the pointer and the cursor:
 * while a stroke is drawn, the lower two rest.
 */
import { say } from "./messages.js";
import { drawOverlay } from "./overlay.js";
import { send } from "./socket.js";
import { on, shownFrame, state } from "./state.js";
import { drawLive, drawMarks, liveStroke } from "./strokes.js";
import { Tiles } from "./tiles.js";
import { fit, pan, toViewport, view, viewport, zoomAt } from "./view.js";

const layers = Object.fromEntries(["base", "marks", "pen"].map((id) => [id, canvasLayer(id)]));
const dirty = new Set(["base", "marks", "pen"]);
const holder = document.getElementById("viewer");

/** What tests and the benchmark read. */
export const report = {
  lastPainted: /** @type {any} */ (null),
  longestFrame: 0,
  longestDraw: 0,
  frames: 0,
};

/** Where the brush would draw, in the picture's stroke coordinates; by pointer or by keys. */
export const cursor = { point: /** @type {number[]|null} */ (null), byKeys: false };

function canvasLayer(id) {
  const canvas = /** @type {HTMLCanvasElement} */ (document.getElementById(id));
  return { canvas, context: canvas.getContext("2d") };
}

/** Draw a layer (or all) with the next frame. @param {...string} names */
export function redraw(...names) {
  if (!requested) requestAnimationFrame(frame);
  requested = true;
  for (const name of names.length ? names : ["base", "marks", "pen"]) dirty.add(name);
}

let requested = false;
let lastFrame = 0;

function frame(now) {
  requested = false;
  const drawing = liveStroke() !== null;
  if (drawing && lastFrame) report.longestFrame = Math.max(report.longestFrame, now - lastFrame);
  lastFrame = drawing ? now : 0;
  const begun = performance.now();
  if (dirty.has("base")) drawLayer("base", drawBase);
  if (dirty.has("marks")) drawLayer("marks", (context, half) => half === 0 && drawMarks(context));
  if (dirty.has("pen")) drawLayer("pen", drawPen);
  const baseDrawn = dirty.has("base");
  dirty.clear();
  report.longestDraw = Math.max(report.longestDraw, performance.now() - begun);
  report.frames += 1;
  if (baseDrawn) acknowledge();
  if (drawing) redraw("pen"); // frames are counted for as long as the stroke lasts
}

/** Draw a layer for each viewport: one, or two side by side. */
function drawLayer(name, draw) {
  const { canvas, context } = layers[name];
  const ratio = window.devicePixelRatio || 1;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  if (!state.picture) return;
  for (const half of state.sideBySide ? [0, 1] : [0]) {
    context.save();
    context.setTransform(ratio, 0, 0, ratio, offsetOf(half) * ratio, 0);
    context.beginPath();
    context.rect(0, 0, viewport.width, viewport.height);
    context.clip();
    draw(context, half);
    context.restore();
  }
}

/** Side by side, the labels and strokes (0) are on the right and the bare picture (1) on the left. */
const offsetOf = (half) => (state.sideBySide && half === 0 ? viewport.width + GAP : 0);
const GAP = 2;

let tiles = /** @type {Tiles|null} */ (null);
/** Tiles of the former range, drawn below until the new ones are there. */
let former = /** @type {Tiles|null} */ (null);

function drawBase(context, half) {
  const ratio = window.devicePixelRatio || 1;
  former?.draw(context, ratio);
  const complete = tiles?.draw(context, ratio);
  if (complete && former) {
    former.close();
    former = null;
  }
  if (half === 0) drawOverlay(context);
}

function drawPen(context) {
  drawLive(context);
  if (!cursor.point || state.tool === "pan") return;
  const [left, top] = toViewport(cursor.point[0], cursor.point[1]);
  const brush = state.tool === "brush" || state.tool === "eraser";
  const radius = brush ? Math.max(state.radius * view.scale, 1.5) : 5;
  for (const [colour, width] of [["rgba(0,0,0,.75)", 3], ["#fff", 1.25]]) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    if (brush) context.arc(left, top, radius, 0, 2 * Math.PI);
    if (!brush || cursor.byKeys) {
      context.moveTo(left - radius - 4, top);
      context.lineTo(left + radius + 4, top);
      context.moveTo(left, top - radius - 4);
      context.lineTo(left, top + radius + 4);
    }
    context.stroke();
  }
}

/** Tell the server that the newest frame is on the screen. */
function acknowledge() {
  const shown = shownFrame();
  if (!shown || shown === acknowledged) return;
  acknowledged = shown;
  const { picture, revision, stage, iteration } = shown;
  report.lastPainted = { picture, revision, stage, iteration, time: performance.now() };
  if (stage !== "applied") send({ type: "painted", picture, revision, stage });
}
let acknowledged = /** @type {any} */ (null);

/** From the pointer's place in the viewer to one viewport's. */
export function inViewport(event) {
  const box = holder.getBoundingClientRect();
  const left = event.clientX - box.left;
  const top = event.clientY - box.top;
  const right = state.sideBySide && left > viewport.width + GAP / 2;
  return [right ? left - viewport.width - GAP : left, top];
}

function resize() {
  const { clientWidth: width, clientHeight: height } = holder;
  const ratio = window.devicePixelRatio || 1;
  const wide = state.sideBySide ? (width - GAP) / 2 : width;
  const centre = [view.x + viewport.width / view.scale / 2, view.y + viewport.height / view.scale / 2];
  Object.assign(viewport, { width: Math.max(wide, 1), height: Math.max(height, 1) });
  view.x = centre[0] - viewport.width / view.scale / 2;
  view.y = centre[1] - viewport.height / view.scale / 2;
  for (const { canvas } of Object.values(layers)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  if (state.picture && fitted) fit(state.picture);
  moved();
}

/** Whether the whole picture is shown, and shall be after the window's size changes. */
let fitted = true;

export function showAll() {
  if (!state.picture) return;
  fitted = true;
  fit(state.picture);
  moved();
}

/** Zoom about a point of the viewport, or its middle. */
export function zoom(factor, left = viewport.width / 2, top = viewport.height / 2) {
  if (!state.picture) return;
  fitted = false;
  zoomAt(factor, left, top, state.picture);
  moved();
}

export function move(dx, dy) {
  if (!state.picture) return;
  fitted = false;
  pan(dx, dy, state.picture);
  moved();
}

const watchers = /** @type {(() => void)[]} */ ([]);
/** Call after each pan or zoom. @param {() => void} watcher */
export const onMove = (watcher) => watchers.push(watcher);

function moved() {
  redraw();
  for (const watcher of watchers) watcher();
}

/** What the server says of a picture that is gone or spoilt is said once. */
function newTiles() {
  let told = false;
  const refused = (words) => {
    if (!told) say(words, "error");
    told = true;
  };
  return new Tiles(state.picture, state.range, () => redraw("base"), refused);
}

function openTiles() {
  tiles?.close();
  former?.close();
  former = null;
  tiles = state.picture && newTiles();
  showAll();
  redraw();
}

function changeRange() {
  former?.close();
  former = tiles;
  tiles = newTiles();
  redraw("base");
}

export function startViewer() {
  new ResizeObserver(resize).observe(holder);
  on(["picture"], openTiles);
  on(["range"], changeRange);
  on(["frame", "view"], () => redraw("base"));
  on(["strokes", "classes", "project"], () => redraw("marks", "pen"));
  on(["tool"], () => redraw("pen"));
  on(["options"], resize);
  resize();
}
