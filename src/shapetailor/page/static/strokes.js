/** Strokes: drawn as vectors for the eye at once; which pixels they cover, the server decides. */
import { send } from "./socket.js";
import { changed, classOf, drawnStrokes, state } from "./state.js";
import { view } from "./view.js";

const paths = /** @type {WeakMap<any, Path2D>} */ (new WeakMap());
const ERASER = "#8b8f98";
/** Of one stroke; a brush then goes on with another, an outline takes no more. */
const MOST_POINTS = 20_000;

/** @param {any} stroke */
export function pathOf(stroke) {
  const known = paths.get(stroke);
  if (known) return known;
  const path = tracePath(stroke);
  paths.set(stroke, path);
  return path;
}

/** A stroke's path in the picture's coordinates (0 is the edge). */
function tracePath({ kind, points }) {
  const path = new Path2D();
  if (kind === "box") {
    const [[x0, y0], [x1, y1]] = points;
    path.rect(Math.min(x0, x1) + 0.5, Math.min(y0, y1) + 0.5, Math.abs(x1 - x0), Math.abs(y1 - y0));
    return path;
  }
  points.forEach(([x, y], number) => (number ? path.lineTo(x + 0.5, y + 0.5) : path.moveTo(x + 0.5, y + 0.5)));
  if (points.length === 1) path.lineTo(points[0][0] + 0.5, points[0][1] + 0.5);
  if (kind === "lasso") path.closePath();
  return path;
}

/** Set a context, whose origin is the viewport's, to the picture's coordinates. */
function inPicture(context, draw) {
  context.save();
  context.scale(view.scale, view.scale);
  context.translate(-view.x, -view.y);
  context.beginPath();
  context.rect(0, 0, state.picture.width, state.picture.height); // nothing is marked outside
  context.clip();
  context.lineCap = "round";
  context.lineJoin = "round";
  draw();
  context.restore();
}

function paintStroke(context, stroke, path, colour) {
  const hairline = 1 / view.scale;
  const filled = stroke.kind !== "brush";
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = filled ? 1.5 * hairline : 2 * Math.max(stroke.radius, 0.71);
  context.stroke(path);
  if (filled) context.fill(path);
}

/** Draw all strokes in their order; a later one hides earlier ones, an eraser takes them away. */
export function drawMarks(context) {
  if (!state.marksShown) return;
  inPicture(context, () => {
    for (const stroke of drawnStrokes()) {
      context.globalCompositeOperation = "destination-out";
      paintStroke(context, stroke, pathOf(stroke), "#000");
      if (stroke.region < 0) continue;
      context.globalCompositeOperation = "source-over";
      context.globalAlpha = 0.85;
      paintStroke(context, stroke, pathOf(stroke), classOf(stroke.region)?.color ?? ERASER);
      context.globalAlpha = 1;
    }
  });
}

/** The stroke that is being drawn. @type {import("./state.js").Stroke|null} */
let live = null;
/** The outline of a lasso or a box is open until the pointer goes up, so its path is not kept. */
export const liveStroke = () => live;

/** Draw the stroke under the pointer. */
export function drawLive(context) {
  if (!live) return;
  inPicture(context, () => {
    const colour = live.region < 0 ? ERASER : (classOf(live.region)?.color ?? ERASER);
    const path = tracePath(live);
    context.globalAlpha = live.kind === "brush" ? 0.85 : 0.45;
    paintStroke(context, live, path, colour);
    if (live.kind === "brush") return;
    context.globalAlpha = 1;
    context.lineWidth = 3 / view.scale;
    context.strokeStyle = "#fff";
    context.stroke(path);
    context.lineWidth = 1.5 / view.scale;
    context.strokeStyle = colour;
    context.stroke(path);
  });
}

/** Begin a stroke with the tool that is chosen. @param {number[]} point */
export function beginStroke(point) {
  const kind = state.tool === "lasso" || state.tool === "box" ? state.tool : "brush";
  const region = state.tool === "eraser" ? -1 : state.classValue;
  live = { region, kind, points: kind === "box" ? [point, point] : [point] };
  if (kind === "brush") live.radius = state.radius;
  send({ type: "drawing" }); // the server stops refining, and describes a picture that was only looked at
}

/** Go on to a point; points closer than a pixel of the screen add nothing. @param {number[]} point */
export function extendStroke(point) {
  if (!live) return;
  if (live.kind === "box") {
    live.points[1] = point;
    return;
  }
  const [x, y] = live.points[live.points.length - 1];
  const near = Math.max(1 / view.scale, 0.25);
  if (Math.hypot(point[0] - x, point[1] - y) >= near && live.points.length < MOST_POINTS) live.points.push(point);
}

/** Whether the brush has drawn as much as one stroke may hold. */
export const isFull = () => live?.kind === "brush" && live.points.length >= MOST_POINTS;

export function cancelStroke() {
  live = null;
}

const rounded = (value) => Math.round(value * 100) / 100;

/** End the stroke and send it. Returns its id, or null if it marks nothing. */
export function endStroke() {
  const stroke = live;
  live = null;
  if (!stroke || !reaches(stroke)) return null;
  stroke.points = stroke.points.map(([x, y]) => [rounded(x), rounded(y)]);
  if (stroke.radius) stroke.radius = rounded(stroke.radius);
  return act("stroke", stroke);
}

/** Whether a stroke has an area and touches the picture. */
function reaches({ kind, points, radius = 0 }) {
  if (kind === "lasso" && points.length < 3) return false;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [top, bottom] = [Math.min(...ys), Math.max(...ys)];
  if (kind === "box" && (Math.floor(right) < Math.ceil(left) || Math.floor(bottom) < Math.ceil(top))) return false;
  const { width, height } = state.picture;
  const reach = Math.max(radius, 0.71);
  return right + reach > 0 && bottom + reach > 0 && left - reach < width - 1 && top - reach < height - 1;
}

/** Change the marks of the picture on view: shown at once, stored by the server. */
export function act(type, stroke = undefined) {
  const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const change = { id, picture: state.picture.name, type, stroke };
  state.pending.push(change);
  state.source = "live";
  changed("strokes");
  changed("frame");
  if (state.connected) send(change);
  return id;
}
