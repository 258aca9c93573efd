/** The keyboard: single keys outside of text fields, and a cursor that draws by arrow keys. */
import { addClass, chooseNumber } from "./classes.js";
import { byId } from "./dom.js";
import { toggleHelp } from "./help.js";
import { begin, findRegions } from "./jobs.js";
import { status } from "./messages.js";
import { finishStroke, holdSpace, mayDraw } from "./pointer.js";
import { on, state } from "./state.js";
import { beginStroke, cancelStroke, extendStroke, liveStroke } from "./strokes.js";
import { stepPicture } from "./thumbs.js";
import { changeMarks, chooseTool, resizeBrush, showPlace, toggle } from "./tools.js";
import { cursor, move, redraw, showAll, zoom } from "./viewer.js";
import { toPicture, toViewport, view, viewport } from "./view.js";

const STEP = { pan: 80, far: 16, near: 2 };
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const ACTIONS = {
  b: () => chooseTool("brush"),
  e: () => chooseTool("eraser"),
  l: () => chooseTool("lasso"),
  r: () => chooseTool("box"),
  v: () => chooseTool("pan"),
  "[": () => resizeBrush(1 / 1.25),
  "]": () => resizeBrush(1.25),
  "+": () => zoom(1.25),
  "=": () => zoom(1.25),
  "-": () => zoom(0.8),
  0: showAll,
  n: () => stepPicture(1),
  p: () => stepPicture(-1),
  PageDown: () => stepPicture(1),
  PageUp: () => stepPicture(-1),
  h: () => toggle("overlayShown"),
  m: () => toggle("marksShown"),
  o: () => toggle("outlinesOnly"),
  u: () => toggle("unsure"),
  s: () => toggle("sideBySide"),
  f: findRegions,
  t: () => byId("teach").disabled || begin("teach"),
  a: () => byId("apply").disabled || begin("apply"),
  c: addClass,
  k: toggleCursor,
  "?": toggleHelp,
  Escape: leave,
};

/** Whether keys belong to what has the focus. */
function isTyping(target) {
  return target.closest("dialog") !== null || target.matches("input:not([type=checkbox]):not([type=range]), select, textarea");
}

/** Whether the arrow keys belong to what has the focus. */
const usesArrows = (target) => target.matches("input[type=range], [role=radio]");
/** Whether Enter and space belong to what has the focus. */
const isControl = (target) => target.matches("button, summary, a, input");

function press(event) {
  const { target, key } = event;
  if (isTyping(target)) return;
  if ((event.ctrlKey || event.metaKey) && !event.altKey) return command(event);
  if (event.altKey) return;
  if (key === " ") {
    holdSpace(true);
    if (isControl(target)) return; // it is pressed, unless the pointer moves the picture meanwhile
  } else if (key === "Enter" && cursor.byKeys && !isControl(target)) penUpOrDown();
  else if (ARROWS[key] && !usesArrows(target)) arrow(ARROWS[key], event.shiftKey);
  else if (/^[1-9]$/.test(key)) chooseNumber(Number(key) - 1);
  else if (ACTIONS[key] ?? ACTIONS[key.toLowerCase()]) (ACTIONS[key] ?? ACTIONS[key.toLowerCase()])();
  else return;
  event.preventDefault();
}

function command(event) {
  const key = event.key.toLowerCase();
  if (key === "z") changeMarks(event.shiftKey ? "redo" : "undo");
  else if (key === "y") changeMarks("redo");
  else return;
  event.preventDefault();
}

function arrow([dx, dy], small) {
  if (!cursor.byKeys) return move(-dx * STEP.pan, -dy * STEP.pan);
  const step = small ? STEP.near : STEP.far;
  cursor.point = [cursor.point[0] + (dx * step) / view.scale, cursor.point[1] + (dy * step) / view.scale];
  if (liveStroke()) extendStroke(cursor.point);
  keepCursorInSight();
  showPlace();
  return redraw("pen");
}

function keepCursorInSight() {
  const [left, top] = toViewport(cursor.point[0], cursor.point[1]);
  const beyond = (at, size) => Math.min(0, at - 24) + Math.max(0, at - size + 24);
  const [dx, dy] = [beyond(left, viewport.width), beyond(top, viewport.height)];
  if (dx || dy) move(-dx, -dy);
}

/** Into the middle, of another picture too. */
function placeCursor() {
  cursor.point = cursor.byKeys ? toPicture(viewport.width / 2, viewport.height / 2) : null;
}

function toggleCursor() {
  if (!state.picture) return;
  cancelStroke();
  cursor.byKeys = !cursor.byKeys;
  if (cursor.byKeys && state.tool === "pan") chooseTool("brush"); // which Enter can draw with
  placeCursor();
  if (cursor.byKeys) byId("pen").focus({ preventScroll: true });
  status(cursor.byKeys ? "Arrow keys move the cursor, Enter begins and ends a stroke, K leaves." : "");
  showPlace();
  redraw("pen");
}

function penUpOrDown() {
  if (liveStroke()) finishStroke();
  else if (mayDraw()) beginStroke(cursor.point);
  redraw("pen");
}

function leave() {
  if (liveStroke()) cancelStroke();
  else if (state.evolving) findRegions();
  else if (cursor.byKeys) toggleCursor();
  redraw("pen");
}

export function startKeys() {
  on(["picture"], () => cursor.byKeys && placeCursor());
  window.addEventListener("keydown", press);
  window.addEventListener("keyup", (event) => {
    if (event.key === " ") holdSpace(false);
  });
  window.addEventListener("blur", () => holdSpace(false));
}
