/** The toolbar and the view's options. */
import { byId, debounced } from "./dom.js";
import { changed, drawnStrokes, on, shownFrame, state } from "./state.js";
import { act, cancelStroke, liveStroke } from "./strokes.js";
import { cursor, onMove, redraw, showAll, zoom } from "./viewer.js";
import { view } from "./view.js";

const [THINNEST, THICKEST] = [0.75, 400];

/** @param {string} tool */
export function chooseTool(tool) {
  state.tool = tool;
  changed("tool");
}

const sideOf = ({ width, height }) => Math.min(width, height);

/** Make the brush so large, in pixels of the picture. @param {number} radius */
function setRadius(radius) {
  const kept = Math.min(Math.max(radius, THINNEST), THICKEST);
  state.radius = kept < 10 ? Math.round(kept * 4) / 4 : Math.round(kept);
  changed("tool");
}

function chooseRadius(radius) {
  setRadius(radius);
  if (state.picture) state.brushShare = state.radius / sideOf(state.picture);
}

/** Make the brush larger or smaller. @param {number} factor */
export const resizeBrush = (factor) => chooseRadius(state.radius * factor);

/** A brush that is as large in this picture as it was chosen in another. */
function fitBrush() {
  if (state.picture) setRadius(Math.max(state.brushShare * sideOf(state.picture), Math.min(2, sideOf(state.picture) / 4)));
}

/** Forget the stroke that is being drawn. */
export function leaveStroke() {
  cancelStroke();
  redraw("pen");
}

/** Undo, redo or clear the strokes of the picture on view. @param {"undo"|"redo"|"clear"} type */
export function changeMarks(type) {
  if (!state.picture?.editable) return undefined;
  if (liveStroke()) return leaveStroke();
  if (byId(type).disabled) return undefined;
  return act(type);
}

/** Switch one of the options. @param {"outlinesOnly"|"unsure"|"sideBySide"|"marksShown"|"overlayShown"} option */
export function toggle(option, value = !state[option]) {
  state[option] = value;
  if (option === "sideBySide") changed("options");
  changed("view");
  if (option === "marksShown") changed("strokes");
  showOptions();
}

const CHECKS = { outlines: "outlinesOnly", unsure: "unsure", "show-marks": "marksShown", "show-overlay": "overlayShown" };

function showOptions() {
  for (const [id, option] of Object.entries(CHECKS)) byId(id).checked = state[option];
  byId("side-by-side").setAttribute("aria-pressed", String(state.sideBySide));
  byId("opacity").value = String(Math.round(100 * state.opacity));
  byId("opacity-out").textContent = `${Math.round(100 * state.opacity)} %`;
}

/** The slider's places are even steps of the radius's logarithm. */
const toPlace = (radius) => (100 * Math.log(radius / THINNEST)) / Math.log(THICKEST / THINNEST);
const toRadius = (place) => THINNEST * (THICKEST / THINNEST) ** (place / 100);

function showTools() {
  for (const button of byId("tools").children) {
    const chosen = button.dataset.tool === state.tool;
    button.setAttribute("aria-checked", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  }
  byId("radius").value = String(toPlace(state.radius));
  byId("radius").setAttribute("aria-valuetext", `${state.radius} pixels`);
  byId("radius-out").textContent = String(state.radius);
  byId("pen").classList.toggle("grab", state.tool === "pan");
}

function showMarksState() {
  const editable = Boolean(state.picture?.editable);
  const waiting = state.pending.length > 0;
  byId("undo").disabled = !editable || (!waiting && !state.depth.undo);
  byId("redo").disabled = !editable || (!waiting && !state.depth.redo);
  byId("clear").disabled = !editable || drawnStrokes().length === 0;
}

function showZoom() {
  byId("zoom-level").textContent = state.picture ? `${Math.round(100 * view.scale)} %` : "–";
}

/** Say below the picture what is under the pointer. */
export function showPlace() {
  const point = cursor.point;
  const picture = state.picture;
  if (!picture) return;
  let text = `${picture.width} × ${picture.height}`;
  if (point) {
    const [x, y] = point.map(Math.round);
    if (x >= 0 && y >= 0 && x < picture.width && y < picture.height) text = `${x}, ${y}${classAt(x, y)}`;
  }
  byId("place").textContent = text;
}

function classAt(x, y) {
  const frame = shownFrame();
  if (!frame) return "";
  const [column, row] = [Math.floor((x + 0.5) / frame.grain[0]), Math.floor((y + 0.5) / frame.grain[1])];
  const value = frame.values[row * frame.columns + column];
  if (frame.stage === "evolving") return value ? ` · region ${value}` : "";
  const found = state.project.classes.find((each) => each.value === value);
  return found ? ` · ${found.name}` : "";
}

const short = (value) => (Math.abs(value) >= 1000 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(3));

function openRange() {
  byId("range").disabled = !state.picture;
  if (!state.picture) return;
  const [least, most] = state.picture.limits;
  for (const id of ["low", "high"]) {
    Object.assign(byId(id), { min: least, max: most, step: most - least > 20 ? 1 : (most - least) / 1000 || 1 });
  }
  showRange();
}

function showRange() {
  for (const [id, value] of [["low", state.range[0]], ["high", state.range[1]]]) {
    byId(id).value = String(value);
    byId(`${id}-out`).textContent = short(Number(value));
  }
}

const applyRange = debounced(() => changed("range"), 120);

function moveRange(event) {
  const [low, high] = [Number(byId("low").value), Number(byId("high").value)];
  const step = Number(byId("low").step);
  state.range = event.target.id === "low" ? [low, Math.max(high, low + step)] : [Math.min(low, high - step), high];
  showRange();
  applyRange();
}

function resetRange() {
  state.range = state.picture.range;
  showRange();
  changed("range");
}

/** Arrow keys step through the tools, as in every group of radio buttons. */
function stepTools(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const buttons = [...byId("tools").children];
  const next = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
  chooseTool(next.dataset.tool);
  next.focus();
}

export function startTools() {
  for (const button of byId("tools").children) button.onclick = () => chooseTool(button.dataset.tool);
  byId("tools").addEventListener("keydown", stepTools);
  byId("radius").oninput = (event) => {
    chooseRadius(toRadius(Number(event.target.value)));
  };
  for (const type of /** @type {const} */ (["undo", "redo", "clear"])) byId(type).onclick = () => changeMarks(type);
  byId("zoom-in").onclick = () => zoom(1.5);
  byId("zoom-out").onclick = () => zoom(1 / 1.5);
  byId("zoom-fit").onclick = showAll;
  byId("side-by-side").onclick = () => toggle("sideBySide");
  for (const [id, option] of Object.entries(CHECKS)) byId(id).onchange = () => toggle(/** @type {any} */ (option));
  byId("opacity").oninput = (event) => {
    state.opacity = Number(event.target.value) / 100;
    toggle("overlayShown", true);
  };
  byId("low").oninput = moveRange;
  byId("high").oninput = moveRange;
  byId("range-reset").onclick = resetRange;
  byId("pen").addEventListener("pointermove", showPlace);
  byId("pen").addEventListener("pointerleave", showPlace);
  on(["tool"], showTools);
  on(["strokes", "picture"], showMarksState);
  on(["picture"], openRange);
  on(["picture"], fitBrush);
  on(["picture", "frame"], showPlace);
  onMove(showZoom);
  showTools();
  showOptions();
  showMarksState();
  openRange();
}
