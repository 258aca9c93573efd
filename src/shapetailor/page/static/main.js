/** The beginning: fetch the project, connect, open a picture; and what each message of the server means. */
import { getPicture, getProject } from "./api.js";
import { startClasses } from "./classes.js";
import { byId, debounced } from "./dom.js";
import { startHelp } from "./help.js";
import { startJobs, takeJob } from "./jobs.js";
import { startKeys } from "./keys.js";
import { attempt, say, status } from "./messages.js";
import { closeFrame, closeFrames, fetchApplied, takeLive } from "./overlay.js";
import { lastStroke, startPointer } from "./pointer.js";
import { startResults } from "./results.js";
import { connect, resendPending, send } from "./socket.js";
import { changed, on, shownFrame, state } from "./state.js";
import { startThumbs } from "./thumbs.js";
import { startTools } from "./tools.js";
import { startUpload } from "./upload.js";
import { report, startViewer } from "./viewer.js";
import { view } from "./view.js";

/** The picture that was asked for last; answers about others come too late. */
let wanted = /** @type {string|null} */ (null);

async function openPicture(name) {
  if (name === state.picture?.name && name === wanted) return;
  wanted = name;
  status(`Opening ${name}…`);
  const picture = await attempt(getPicture(name));
  if (!picture || name !== wanted) return;
  closeFrames();
  hint("");
  state.radius = radiusFor(picture);
  Object.assign(state, { picture, strokes: picture.strokes, revision: picture.revision, range: picture.range, evolving: false });
  state.source = picture.applied && (picture.applied_newer || !picture.strokes.length) ? "applied" : "live";
  status("");
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  document.title = `${name} · shapetailor`;
  for (const topic of /** @type {const} */ (["picture", "strokes", "frame", "tool"])) changed(topic);
  send({ type: "open", picture: name });
  if (picture.applied) void fetchApplied();
}

/** A brush that is as large in this picture as it was in the former one. */
function radiusFor({ width, height }) {
  const side = Math.min(width, height);
  const former = state.picture && Math.min(state.picture.width, state.picture.height);
  const radius = former ? (state.radius * side) / former : Math.max(2, side / 60);
  return radius < 10 ? Math.max(0.75, Math.round(4 * radius) / 4) : Math.round(radius);
}

/** While a model is applied, badges follow now and then. */
const refreshSoon = debounced(() => void refreshProject(), 700);

const warned = new Set();

async function refreshProject() {
  const project = await attempt(getProject());
  if (!project) return;
  const before = resultOf(state.project);
  state.project = project;
  if (project.job && !state.job) state.job = project.job;
  byId("project-name").textContent = project.name ?? "";
  byId("project-name").title = project.folder ?? "";
  byId("empty").hidden = project.pictures.length > 0;
  for (const words of (project.warnings ?? []).filter((each) => !warned.has(each))) {
    warned.add(words);
    say(words, "error");
  }
  changed("project");
  changed("job");
  if (resultOf(project) === "applied" && before && before !== "applied") resultCame();
}

const resultOf = (project) => project?.pictures.find((each) => each.name === state.picture?.name)?.state;

/** "Apply" has written a result for the picture on view. */
function resultCame() {
  state.picture.applied = true;
  state.source = "applied";
  void fetchApplied();
}

/** Words of the server about the picture on view. @param {string} text */
function hint(text) {
  byId("hint").textContent = text;
  byId("hint").hidden = !text;
}

/** Labels of strokes that were taken back are no longer true: the server answers two classes, or one on a result. */
function dropStale() {
  const marked = new Set(state.strokes.map((each) => each.region).filter((region) => region > 0));
  const frame = state.frames.live;
  if (!frame || frame.stage === "evolving" || marked.size >= (state.picture.applied ? 1 : 2)) return;
  closeFrame("live");
  if (state.picture.applied) state.source = "applied";
  changed("frame");
}

const isShown = (message) => message.picture === state.picture?.name;

const messages = {
  async connected() {
    await refreshProject();
    if (state.picture) send({ type: "open", picture: state.picture.name });
    resendPending();
  },
  stored(message) {
    const at = state.pending.findIndex((each) => each.id === message.id);
    const [change] = at < 0 ? [] : state.pending.splice(at, 1);
    if (!isShown(message)) return;
    state.revision = message.revision;
    if (Array.isArray(message.strokes)) state.strokes = message.strokes;
    else if (change?.stroke && message.strokes === state.strokes.length + 1) state.strokes = [...state.strokes, change.stroke];
    changed("strokes");
    dropStale();
  },
  refused(message) {
    state.pending = state.pending.filter((each) => each.id !== message.id);
    say(message.error, "error");
    changed("strokes");
  },
  strokes(message) {
    if (!isShown(message)) return;
    state.strokes = message.strokes;
    state.revision = message.revision;
    changed("strokes");
    dropStale();
  },
  status(message) {
    if (!message.picture || isShown(message)) hint(message.text);
  },
  error(message) {
    state.evolving = false;
    say(message.text, "error");
    changed("frame");
  },
  project: refreshProject,
  async job({ job }) {
    takeJob(job);
    if (job.state === "running") {
      if (job.kind === "apply") refreshSoon();
      return;
    }
    await refreshProject();
    if (job.kind === "apply" && resultOf(state.project) === "applied") resultCame();
  },
  frame(header, bytes) {
    if (!isShown(header)) return;
    if (header.type === "labels") takeStage(header);
    void takeLive(header, bytes);
  },
};

/** Regions evolve until the server says that they are found. */
function takeStage({ stage, finished, iteration }) {
  if (state.evolving && finished) status(`Regions found after ${iteration} iterations.`);
  state.evolving = stage === "evolving" && !finished;
  if (stage !== "evolving") hint("");
}

function themeButton() {
  byId("theme").onclick = () => {
    const dark = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    const next = dark === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
  };
}

async function start() {
  startViewer();
  startPointer();
  startTools();
  startClasses();
  startResults();
  startThumbs((name) => void openPicture(name));
  startJobs();
  startKeys();
  startHelp();
  startUpload(async (name) => {
    await refreshProject();
    await openPicture(name);
  });
  themeButton();
  on(["connection"], () => (byId("connection").hidden = state.connected));
  await refreshProject();
  const names = (state.project?.pictures ?? []).map((each) => each.name);
  const asked = decodeURIComponent(location.hash.slice(1));
  if (names.length) await openPicture(names.includes(asked) ? asked : names[0]);
  connect(messages);
}

/** For tests and `shapetailor bench page`. */
window.shapetailor = {
  state,
  view,
  lastStroke,
  get lastPainted() {
    return report.lastPainted;
  },
  get longestFrame() {
    return report.longestFrame;
  },
  get longestDraw() {
    return report.longestDraw;
  },
  resetFrames() {
    Object.assign(report, { longestFrame: 0, longestDraw: 0, frames: 0 });
  },
  labels() {
    const frame = shownFrame();
    return frame && { width: frame.columns, height: frame.rows, scale: frame.scale, values: frame.values, stage: frame.stage };
  },
  ready: start(),
};
