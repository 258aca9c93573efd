/** The page's state, and who wants to know when a part of it changes. */

/**
 * @typedef {{value: number, name: string, color: string, ignored?: boolean}} ClassName
 * @typedef {{region: number, kind: "brush"|"lasso"|"box", points: number[][], radius?: number}} Stroke
 * @typedef {{id: string, picture: string, type: "stroke"|"undo"|"redo"|"clear", stroke?: Stroke}} Pending
 * @typedef {{value: number, fraction: number, pixels: number}} Row
 * @typedef {{bitmap: ImageBitmap, grain: number[]}} Unsure
 * @typedef {{picture: string, revision: number, stage: string, iteration: number|null, energy: number[]|null,
 *   width: number, height: number, scale: number, table: Row[], grain: number[], values: Uint8Array, columns: number, rows: number,
 *   palette: Uint32Array, fill: ImageBitmap, lines: ImageBitmap}} Frame
 */

export const state = {
  project: /** @type {any} */ (null),
  /** What `GET /api/pictures/NAME` said of the picture on view. */
  picture: /** @type {any} */ (null),
  strokes: /** @type {Stroke[]} */ ([]),
  revision: 0,
  /** How many changes can be undone, and done again. */
  depth: { undo: 0, redo: 0 },
  /** Sent, but not yet acknowledged. */
  pending: /** @type {Pending[]} */ ([]),
  /** Names of pictures that could not be opened. */
  unreadable: /** @type {Set<string>} */ (new Set()),
  connected: false,

  tool: "brush",
  /** Of the brush in pixels, and as a part of the picture's shorter side, which stays from picture to picture. */
  radius: 6,
  brushShare: 1 / 60,
  classValue: 1,

  opacity: 0.4,
  outlinesOnly: false,
  unsure: false,
  sideBySide: false,
  marksShown: true,
  overlayShown: true,
  /** Numbers of the file that are shown black and white. */
  range: /** @type {[number, number]} */ ([0, 255]),

  /** Which labels are on view: those that follow the strokes, or those that "Apply" wrote. */
  source: /** @type {"live"|"applied"} */ ("live"),
  frames: { live: /** @type {Frame|null} */ (null), applied: /** @type {Frame|null} */ (null) },
  uncertainty: { live: /** @type {Unsure|null} */ (null), applied: /** @type {Unsure|null} */ (null) },
  evolving: false,
  job: /** @type {any} */ (null),
};

/** @typedef {"project"|"picture"|"strokes"|"frame"|"view"|"tool"|"classes"|"options"|"range"|"job"|"connection"} Topic */

const listeners = /** @type {Map<string, Function[]>} */ (new Map());

/** Call `listener` whenever one of these parts changes. @param {Topic[]} topics @param {() => void} listener */
export function on(topics, listener) {
  for (const topic of topics) listeners.set(topic, [...(listeners.get(topic) ?? []), listener]);
}

/** Say that a part has changed. @param {Topic} topic */
export function changed(topic) {
  for (const listener of listeners.get(topic) ?? []) listener();
}

/** Whose labels are on view: a result stays until there is something newer. @returns {"live"|"applied"} */
export const shownSource = () => (state.frames.applied && !state.frames.live ? "applied" : state.source);

/** The frame on view. @returns {Frame|null} */
export const shownFrame = () => state.frames[shownSource()];

/** @returns {ClassName[]} */
export const classes = () => state.project?.classes ?? [];

/** @param {number} value */
export const classOf = (value) => classes().find((each) => each.value === value);

/** The strokes as they will be once all that is pending is stored. @returns {Stroke[]} */
export function drawnStrokes() {
  const drawn = [...state.strokes];
  for (const each of state.pending) {
    if (each.picture !== state.picture?.name) continue;
    if (each.type === "stroke") drawn.push(each.stroke);
    else if (each.type === "undo") drawn.pop();
    else if (each.type === "clear") drawn.length = 0;
  }
  return drawn;
}
