/** The beginning, and what each message of the server means. */
import { startClasses } from "./classes.js";
import { byId } from "./dom.js";
import { startGuide } from "./guide.js";
import { startHelp } from "./help.js";
import { startJobs, takeJob } from "./jobs.js";
import { startKeys } from "./keys.js";
import { say, status } from "./messages.js";
import { hint, openPicture, refreshProject, refreshSoon, showResult } from "./opening.js";
import { closeFrame, takeLive } from "./overlay.js";
import { lastStroke, startPointer } from "./pointer.js";
import { startResults } from "./results.js";
import { connect, resendPending, send } from "./socket.js";
import { changed, on, shownFrame, state } from "./state.js";
import { readable, startThumbs } from "./thumbs.js";
import { startTools } from "./tools.js";
import { startUpload } from "./upload.js";
import { report, startViewer } from "./viewer.js";
import { view } from "./view.js";

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
    state.depth = message.depth;
    if (Array.isArray(message.strokes)) state.strokes = message.strokes;
    else if (change?.stroke && message.strokes === state.strokes.length + 1) state.strokes = [...state.strokes, change.stroke];
    changed("strokes");
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
    state.depth = message.depth;
    changed("strokes");
  },
  status(message) {
    if (!message.picture || isShown(message)) hint(message.text);
  },
  stopped(message) {
    if (isShown(message)) endSearch();
  },
  error(message) {
    endSearch();
    say(message.text, "error");
  },
  project: refreshProject,
  async job({ job }) {
    takeJob(job);
    if (job.state === "running") {
      if (job.kind === "apply") refreshSoon();
      return;
    }
    await refreshProject();
    if (job.kind === "apply") showResult();
  },
  frame(header, bytes) {
    if (!isShown(header)) return;
    if (header.type === "labels") takeStage(header);
    void takeLive(header, bytes);
  },
};

/** The search for regions has ended without any. */
function endSearch() {
  if (state.evolving) status("");
  state.evolving = false;
  changed("frame");
}

/** Regions evolve until the server says that they are found. */
function takeStage({ stage, finished, iteration }) {
  if (state.evolving && finished) status(`The search has ended after ${iteration} ${iteration === 1 ? "iteration" : "iterations"}.`, true);
  state.evolving = stage === "evolving" && !finished;
  hint(""); // there is something to look at
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
  startGuide();
  startUpload(async (name) => {
    await refreshProject();
    await openPicture(name);
  });
  themeButton();
  on(["strokes", "frame"], dropStale);
  on(["connection"], () => {
    byId("connection").hidden = state.connected;
    if (!state.connected) hint(""); // nobody works on it any more
  });
  window.addEventListener("beforeunload", (event) => {
    if (state.pending.length) event.preventDefault(); // what is drawn and not stored would be lost: the browser asks
  });
  byId("try-again").onclick = () => location.reload();
  await refreshProject();
  const asked = readable().filter((name) => location.hash === `#${encodeURIComponent(name)}`);
  for (const name of [...asked, ...readable()]) {
    if (!state.picture) await openPicture(name);
  }
  byId("sections").hidden = false; // not before they are full, so that nothing jumps
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
