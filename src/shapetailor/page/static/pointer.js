/**
 * Mouse, pen and touch: one pointer draws, two fingers (or the middle button, or the space bar) move and zoom.
 * Pen pressure is ignored, because the brush's radius is what the server is told.
 */
import { say, status } from "./messages.js";
import { classes, classOf, state } from "./state.js";
import { beginStroke, cancelStroke, endStroke, extendStroke, isFull, liveStroke } from "./strokes.js";
import { cursor, inViewport, move, redraw, zoom } from "./viewer.js";
import { toPicture } from "./view.js";

const pen = /** @type {HTMLCanvasElement} */ (document.getElementById("pen"));
/** Pointers that are down, and where. */
const down = /** @type {Map<number, {left: number, top: number, type: string}>} */ (new Map());
let panning = false;
let spaceHeld = false;
export const lastStroke = { id: /** @type {string|null} */ (null), time: 0 };

/** Whether a stroke can be drawn; if not, say why. */
export function mayDraw() {
  if (!state.picture || state.tool === "pan") return false;
  if (!state.picture.editable) {
    say(`The marks of ${state.picture.name} are a map, not strokes. Remove marks/${state.picture.name}.png to draw here.`, "error");
    return false;
  }
  if (!classOf(state.classValue) && state.tool !== "eraser") {
    say(classes().length ? "Choose a class first." : "Add a class first.", "error");
    return false;
  }
  return true;
}

/** A stroke by keys goes on, whatever touches the mouse meanwhile. */
const isDrawnByKeys = () => cursor.byKeys && liveStroke() !== null;

/** The cursor follows the pointer again. */
function leaveKeys() {
  if (cursor.byKeys) status("");
  cursor.byKeys = false;
}

function press(event) {
  if (!state.picture || isDrawnByKeys() || (liveStroke() && down.has(event.pointerId))) return;
  if (event.pointerType === "touch" && [...down.values()].some(({ type }) => type === "pen")) return; // a palm
  pen.focus({ preventScroll: true });
  const [left, top] = inViewport(event);
  down.set(event.pointerId, { left, top, type: event.pointerType });
  try {
    pen.setPointerCapture(event.pointerId);
  } catch {
    // the pointer is gone already
  }
  leaveKeys();
  if (down.size > 1) {
    cancelStroke(); // a second finger: this was the beginning of a pinch
    panning = true;
  } else if (event.button === 1 || spaceHeld || state.tool === "pan") {
    panning = true;
  } else if (event.button === 0 && mayDraw()) {
    beginStroke(toPicture(left, top));
  }
  show();
  redraw("pen");
  event.preventDefault();
}

function drag(event) {
  if (isDrawnByKeys()) return;
  const [left, top] = inViewport(event);
  cursor.point = event.pointerType === "touch" && !liveStroke() ? null : toPicture(left, top);
  leaveKeys();
  const before = down.get(event.pointerId);
  if (before && down.size === 2) pinch(event.pointerId, left, top);
  else if (before && panning) move(left - before.left, top - before.top);
  else if (liveStroke()) follow(event);
  if (before) Object.assign(before, { left, top });
  redraw("pen");
}

/** Browsers bundle what a fast pen did since the last frame. */
function follow(event) {
  const bundle = event.getCoalescedEvents?.() ?? [];
  for (const each of bundle.length ? bundle : [event]) {
    extendStroke(toPicture(...inViewport(each)));
    if (!isFull()) continue;
    finishStroke();
    beginStroke(toPicture(...inViewport(each)));
  }
}

/** Two fingers: their middle moves the picture, their distance zooms it. */
function pinch(id, left, top) {
  const [, other] = [...down].find(([each]) => each !== id);
  const before = down.get(id);
  const gap = (point) => Math.max(Math.hypot(point.left - other.left, point.top - other.top), 1);
  move((left - before.left) / 2, (top - before.top) / 2);
  zoom(gap({ left, top }) / gap(before), (left + other.left) / 2, (top + other.top) / 2);
}

function release(event) {
  if (!down.delete(event.pointerId)) return;
  if (event.pointerType === "touch") cursor.point = null;
  if (event.type === "pointercancel") cancelStroke();
  else if (liveStroke()) finishStroke();
  if (down.size === 0) panning = false;
  show();
  redraw("pen");
}

/** End the stroke under the pointer or the keys. */
export function finishStroke() {
  const time = performance.now();
  const id = endStroke();
  if (id) Object.assign(lastStroke, { id, time });
  redraw("pen");
}

/** Wheels zoom towards the pointer; a trackpad's two fingers move, its pinch arrives as a wheel with Ctrl. */
function wheel(event) {
  event.preventDefault();
  const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
  if (event.shiftKey) return move(-(event.deltaX || event.deltaY) * lines, 0);
  if (event.deltaX && !event.ctrlKey) return move(-event.deltaX * lines, -event.deltaY * lines);
  const speed = event.ctrlKey ? 0.01 : 0.0018;
  const amount = Math.max(-240, Math.min(240, event.deltaY * lines));
  return zoom(Math.exp(-amount * speed), ...inViewport(event));
}

/** The space bar held: the pointer moves the picture. @param {boolean} held */
export function holdSpace(held) {
  spaceHeld = held;
  show();
}

function show() {
  pen.classList.toggle("grab", spaceHeld || state.tool === "pan");
  pen.classList.toggle("grabbing", panning);
}

export function startPointer() {
  pen.addEventListener("pointerdown", press);
  pen.addEventListener("pointermove", drag);
  pen.addEventListener("pointerup", release);
  pen.addEventListener("pointercancel", release);
  pen.addEventListener("pointerleave", () => {
    if (!liveStroke() && !cursor.byKeys) cursor.point = null;
    redraw("pen");
  });
  pen.addEventListener("wheel", wheel, { passive: false });
  pen.addEventListener("contextmenu", (event) => event.preventDefault());
}
