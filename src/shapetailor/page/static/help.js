/** The keys, shown on `?`. */
import { byId, make } from "./dom.js";

const KEYS = {
  Draw: [
    ["Choose a class", ["1", "…", "9"]],
    ["Brush", ["B"]],
    ["Eraser", ["E"]],
    ["Lasso", ["L"]],
    ["Box", ["R"]],
    ["Smaller, larger brush", ["[", "]"]],
    ["Undo", ["Ctrl", "Z"]],
    ["Redo", ["Shift", "Ctrl", "Z"]],
    ["Leave a stroke", ["Esc"]],
  ],
  "Draw without a pointer": [
    ["Cursor on or off", ["K"]],
    ["Move it; with Shift in small steps", ["← ↑ ↓ →"]],
    ["Begin and end a stroke", ["Enter"]],
  ],
  "Move and zoom": [
    ["Move the picture", ["← ↑ ↓ →"]],
    ["… with the pointer", ["Space", "drag"]],
    ["… or choose the tool", ["V"]],
    ["Zoom in, out", ["+", "−"]],
    ["Whole picture", ["0"]],
    ["Next, former picture", ["N", "P"]],
  ],
  View: [
    ["Overlay on or off", ["H"]],
    ["Strokes on or off", ["M"]],
    ["Outlines only", ["O"]],
    ["Uncertainty", ["U"]],
    ["Side by side", ["S"]],
  ],
  Work: [
    ["Find regions without strokes", ["F"]],
    ["Teach", ["T"]],
    ["Apply to all", ["A"]],
    ["Add a class", ["C"]],
    ["This help", ["?"]],
  ],
};

function section([title, entries]) {
  const rows = entries.flatMap(([words, keys]) => [
    make("dt", { textContent: words }),
    make("dd", {}, ...keys.map((key) => make("kbd", { textContent: key }))),
  ]);
  return make("section", {}, make("h3", { textContent: title }), make("dl", {}, ...rows));
}

export function toggleHelp() {
  const dialog = byId("help");
  if (dialog.open) dialog.close();
  else dialog.showModal();
}

export function startHelp() {
  byId("help-body").append(...Object.entries(KEYS).map(section));
  byId("help-open").onclick = toggleHelp;
  byId("help-close").onclick = toggleHelp;
}
