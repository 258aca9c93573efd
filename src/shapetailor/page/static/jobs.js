/** Teaching, applying, and regions without strokes: start, progress, curve, cancel. */
import { cancelJob, startJob } from "./api.js";
import { drawCurve } from "./chart.js";
import { byId, make } from "./dom.js";
import { attempt, say, status } from "./messages.js";
import { figures } from "./results.js";
import { send } from "./socket.js";
import { changed, on, shownFrame, state } from "./state.js";

const NAMES = { teach: "Teaching", apply: "Applying" };
const running = () => state.job?.state === "running";

/** @param {"teach"|"apply"} kind */
export async function begin(kind) {
  if (running()) return say("A job is running. Cancel it first.", "error");
  const job = kind === "teach" ? { kind, fine_tune: byId("fine-tune").checked } : { kind };
  const answer = await attempt(startJob(job));
  if (answer && !running()) takeJob({ kind, state: "running", done: 0, total: 0, text: `${NAMES[kind]}…`, curve: [], held_out: null, failures: [] });
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
function jobWords({ kind, state: stage, text, done, total }) {
  if (stage === "done" && kind === "teach") return "The model is taught. Apply it to all pictures.";
  if (stage === "done") return `Applied to ${done} of ${total} pictures.`;
  if (stage === "failed") return `${NAMES[kind]} failed: ${text}`;
  const count = stage === "running" && total ? ` (${done} of ${total})` : "";
  return `${text || `${NAMES[kind]}…`}${text?.includes(String(total)) ? "" : count}`;
}

function show() {
  const job = state.job;
  byId("job").hidden = !job;
  byId("cancel-job").hidden = !running();
  byId("cancel-job").disabled = false;
  enable();
  if (!job) return;
  const bar = byId("job-progress");
  bar.hidden = !running();
  if (job.total) Object.assign(bar, { max: job.total, value: job.done });
  else bar.removeAttribute("value");
  byId("job-text").textContent = jobWords(job);
  const curve = job.curve ?? [];
  const last = curve.at(-1);
  drawCurve(byId("job-curve"), curve, last ? [`step ${last[0]}`, String(Number(last[1]).toPrecision(3))] : []);
  showHeldOut(job.held_out);
  byId("job-failures").hidden = !job.failures?.length;
  byId("job-failures").replaceChildren(...(job.failures ?? []).map((each) => make("li", { textContent: words(each) })));
}

const words = (failure) => (typeof failure === "string" ? failure : Object.values(failure).join(": "));

function showHeldOut(found) {
  const list = byId("held-out");
  list.hidden = !found;
  if (found) list.replaceChildren(make("dt", { className: "head", textContent: "On held-out pictures" }), ...figures(found));
}

/** Which buttons make sense, and in words why not. */
function enable() {
  const pictures = state.project?.pictures ?? [];
  const marked = pictures.filter((each) => each.marks !== "none").length;
  const model = state.project?.model;
  byId("teach").disabled = running() || marked === 0;
  byId("apply").disabled = running() || !model;
  byId("fine-tune").disabled = running() || marked === 0;
  byId("model-line").textContent = modelWords(marked, pictures.length, model);
}

function modelWords(marked, total, model) {
  if (!total) return "No pictures yet.";
  const count = (number) => `${number} ${number === 1 ? "picture" : "pictures"}`;
  if (!marked) return "Mark a picture, then teach a model that finds the classes in all of them.";
  if (!model) return `${count(marked)} marked. Teach, then apply to all ${total}.`;
  return `Taught from ${count(model.pictures?.length ?? marked)}; ${marked} of ${total} marked now.`;
}

/** Start or stop the evolution without strokes. */
export function findRegions() {
  if (!state.picture) return;
  if (state.evolving) {
    send({ type: "stop" });
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

function showFind() {
  byId("find").textContent = state.evolving ? "Stop" : "Find regions";
  byId("find").disabled = !state.picture || !state.connected;
}

/** The energy beside the regions. */
function showEnergy() {
  const frame = shownFrame();
  const energy = frame?.stage === "evolving" ? (frame.energy ?? []) : [];
  const points = energy.map((value, number) => [number, value]);
  drawCurve(byId("energy"), points, points.length ? [`iteration ${frame.iteration ?? points.length}`, `energy ${Number(energy.at(-1)).toPrecision(4)}`] : []);
}

export function startJobs() {
  byId("teach").onclick = () => void begin("teach");
  byId("apply").onclick = () => void begin("apply");
  byId("cancel-job").onclick = () => {
    byId("cancel-job").disabled = true;
    void attempt(cancelJob());
  };
  byId("find").onclick = findRegions;
  on(["job", "project"], show);
  on(["frame"], showEnergy);
  on(["frame", "picture", "connection"], showFind);
  show();
  showFind();
}
