/** Teaching, applying, and regions without strokes: start, progress, curve, cancel. */
import { cancelJob, startJob } from "./api.js";
import { drawCurve } from "./chart.js";
import { byId, make, term } from "./dom.js";
import { attempt, say, status } from "./messages.js";
import { refreshProject } from "./opening.js";
import { closeFrame } from "./overlay.js";
import { send } from "./socket.js";
import { changed, on, shownFrame, state } from "./state.js";

const NAMES = { teach: "Teaching", apply: "Applying" };
const running = () => state.job?.state === "running";

/** @param {"teach"|"apply"} kind */
export async function begin(kind) {
  if (running()) return say("A job is running. Cancel it first.", "error");
  const job = kind === "teach" ? { kind, fine_tune: byId("fine-tune").checked } : { kind };
  const answer = await attempt(startJob(job));
  if (!answer) return refreshProject(); // there is less than the page knows of
  if (!running()) takeJob({ kind, state: "running", done: 0, total: 0, text: `${NAMES[kind]}…`, curve: [], failures: [] });
  return undefined;
}

/** News of the job. @param {any} job */
export function takeJob(job) {
  const ended = running() && job && job.state !== "running";
  state.job = job;
  changed("job");
  if (ended) say(jobWords(job), job.state === "failed" ? "error" : "note");
}

/** What a job is doing or has done. */
function jobWords({ kind, state: stage, text, done, total: of, failures }) {
  if (stage === "done" && kind === "teach") return "The model is taught. Apply it to all pictures.";
  const bad = failures?.length ?? 0;
  if (stage === "done") return `Applied to ${done - bad} of ${of} pictures.${bad ? ` ${bad} could not be read.` : ""}`;
  if (stage === "failed") return `${NAMES[kind]} failed: ${text}`;
  const count = stage === "running" && done < of ? ` (${done} of ${of})` : "";
  return `${text || `${NAMES[kind]}…`}${text?.includes(` of ${of}`) ? "" : count}`;
}

function show() {
  const job = state.job;
  const model = state.project?.model;
  byId("cancel-job").hidden = !running();
  byId("cancel-job").disabled = false;
  enable();
  const bar = byId("job-progress");
  bar.hidden = !running();
  if (job?.done < job?.total) Object.assign(bar, { max: job.total, value: job.done });
  else bar.removeAttribute("value");
  const told = running() || job?.state === "failed";
  byId("job-text").textContent = told ? jobWords(job) : modelWords(model);
  byId("job-text").classList.toggle("error", job?.state === "failed");
  byId("job-failures").hidden = !job?.failures?.length;
  byId("job-failures").replaceChildren(...(job?.failures ?? []).map((each) => make("li", { textContent: each.replace(`${state.project?.folder}/`, "") })));
  showCurve("tuning", running() ? job.curve : [], "loss of fine-tuning", []);
  showHeldOut(model?.held_out, (model?.teachings ?? []).map((each, place) => [place, each]));
}

function showCurve(id, curve, how, heights) {
  const ends = [curve[0], curve.at(-1)].map((point) => point?.[1].toFixed(3));
  drawCurve(byId(id), curve, [how, ends.join(" → ")], heights);
}

/** Figures on pictures that were held out, and how they changed from one teaching to the next. */
function showHeldOut(found, curve) {
  const box = byId("held-out");
  if (box.hidden && found) box.open = true;
  box.hidden = !found;
  if (!found) return;
  byId("held-out-line").textContent = `mean IoU ${found.mean_iou.toFixed(3)}`;
  showCurve("job-curve", curve.length > 1 ? curve : [], "teaching by teaching", [0, 1]);
  const iou = (found.iou ?? []).flatMap(([name, value]) => term(`IoU of ${name}`, value === null ? "–" : value.toFixed(3)));
  byId("held-out-figures").replaceChildren(...term("accuracy", found.accuracy.toFixed(3)), ...iou);
}

const marked = () => (state.project?.pictures ?? []).filter((each) => each.marks !== "none").length;

/** Whether more pictures are marked than the model was taught from, or the classes are others. */
function isOutgrown() {
  const model = state.project?.model;
  return Boolean(model && (model.outdated || marked() > model.pictures.length));
}

const total = () => (state.project?.pictures ?? []).filter((each) => each.state !== "failed").length;

/** Whether the next step is to apply the model, for the first time or to the rest of the pictures. */
export const isUnapplied = () => Boolean(state.project?.model && !isOutgrown() && state.project.model.results < total());

/** Which buttons make sense; the one in the accent's colour is the next step. */
function enable() {
  const model = state.project?.model;
  const next = isUnapplied() ? "apply" : "teach";
  for (const id of ["teach", "apply"]) byId(id).classList.toggle("accent", id === next);
  byId("teach").disabled = running() || marked() === 0;
  byId("apply").disabled = running() || !model;
  byId("fine-tune").disabled = running() || marked() === 0;
}

/** What there is, and what to do next. */
function modelWords(model) {
  const all = total();
  const count = (number) => `${number} ${number === 1 ? "picture" : "pictures"}`;
  if (!all) return "No pictures yet.";
  if (!marked()) return "Mark a picture, then teach a model that finds the classes in all of them.";
  if (!model) return `${count(marked())} marked. Teach a model, then apply it to all ${all}.`;
  if (!model.pictures.length) return "The model's file cannot be read. Teach again.";
  const tuning = { true: " with fine-tuned networks", false: " (fine-tuning did not help)" }[model.fine_tuned] ?? "";
  const taught = `Taught from ${count(model.pictures.length)}${tuning}`;
  if (model.outdated) return `${taught}; the classes have changed since. Teach again.`;
  if (isOutgrown()) return `${taught}; ${marked()} are marked now. Teach again.`;
  if (model.results >= all) return `${taught} and applied to all ${all}. The table is among the downloads.`;
  if (model.results) return `${taught}; ${model.results} of ${all} have its results. Apply goes on with the rest.`;
  return `${taught}. Apply it to all ${all}.`;
}

/** Start or stop the evolution without strokes. */
export function findRegions() {
  if (!state.picture) return;
  if (state.evolving) {
    send({ type: "stop" });
    status("Stopping after this step…");
    return;
  }
  const chosen = byId("region-count").value;
  state.evolving = true;
  state.source = "live";
  send({ type: "evolve", picture: state.picture.name, regions: chosen === "auto" ? chosen : Number(chosen) });
  status("Finding regions…");
  showFind();
  changed("frame");
}

/** Put away the regions that were found; labels of the strokes come back. */
function hideFound() {
  closeFrame("live");
  if (state.picture.applied && !state.strokes.length) state.source = "applied";
  changed("frame");
  send({ type: "open", picture: state.picture.name });
}

function showFind() {
  byId("find-hide").disabled = state.evolving || state.frames.live?.stage !== "evolving";
  byId("find").textContent = state.evolving ? "Stop" : "Find regions";
  byId("find").disabled = !state.picture || !state.connected;
}

/** The energy beside the regions. */
function showEnergy() {
  const frame = shownFrame();
  const energy = frame?.stage === "evolving" ? (frame.energy ?? []) : [];
  const points = energy.map((value, number) => [number, value]);
  drawCurve(byId("energy"), points, points.length ? [`iteration ${frame.iteration ?? points.length}`, `energy ${Number(energy.at(-1)).toLocaleString("en", { maximumSignificantDigits: 4 })}`] : []);
}

export function startJobs() {
  byId("teach").onclick = () => void begin("teach");
  byId("apply").onclick = () => void begin("apply");
  byId("cancel-job").onclick = () => {
    byId("cancel-job").disabled = true;
    void attempt(cancelJob());
  };
  byId("find").onclick = findRegions;
  byId("find-hide").onclick = hideFound;
  on(["job", "project"], show);
  on(["frame"], showEnergy);
  on(["frame", "picture", "connection"], showFind);
  show();
  showFind();
}
