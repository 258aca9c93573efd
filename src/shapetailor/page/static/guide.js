/** One sentence below the picture: what to do next. It gives way to what is going on. */
import { byId } from "./dom.js";
import { isUnapplied } from "./jobs.js";
import { drawnStrokes, on, shownFrame, state } from "./state.js";

const MEANWHILE = {
  teach: "The model is being taught. What you draw meanwhile is for the next time.",
  apply: "The pictures get their classes one after the other. N shows the next.",
};

function sentence() {
  const { picture, project } = state;
  if (!picture || state.evolving) return "";
  if (!picture.editable) return "This picture is marked by a map in the folder marks; strokes cannot be drawn on it.";
  if (state.job?.state === "running") return MEANWHILE[state.job.kind];
  if (shownFrame()?.stage === "evolving") return "These regions are only to look at. Draw strokes of your classes, or hide them.";
  const drawn = new Set(drawnStrokes().map((each) => each.region).filter((region) => region > 0));
  const isResult = shownFrame()?.stage === "applied";
  const isEnough = drawn.size > (picture.applied ? 0 : 1);
  if ((isResult || isEnough) && isUnapplied() && project.model.results) return "Apply goes on with the rest of the pictures.";
  if (isResult && isUnapplied()) return "This result is a former model's. Apply to all once more.";
  if (isResult) return "Draw where it is wrong; N shows the next picture. Then teach again.";
  if (isEnough && isUnapplied()) return "Apply the model: every picture gets its classes.";
  if (isEnough && !shownFrame()) return "The regions follow your strokes in a moment.";
  const missing = project.classes.find(({ value }) => !drawn.has(value));
  if (isEnough && missing && !project.model && !picture.applied) return `If ${missing.name} is in this picture, draw it too. Then mark another picture (N), or teach.`;
  if (isEnough) return "Draw where it is wrong. Then mark another picture (N), or teach.";
  if (drawn.size === 1) return "Now choose another class, and draw a stroke where that is.";
  if (project.classes.length < 2) return "Add a class for each texture.";
  if (project.classes.some(({ name }) => /^class \d+$/.test(name))) return "Name the classes with the pencil. Choose one, and draw a stroke where it is.";
  return "Choose a class, and draw a stroke where it is in the picture.";
}

export function startGuide() {
  on(["picture", "strokes", "frame", "project", "job"], () => {
    const text = sentence();
    if (byId("guide").textContent !== text) byId("guide").textContent = text;
  });
}
