/** The project and the picture on view: fetch, open, and fetch again when something has changed. */
import { getPicture, getProject } from "./api.js";
import { byId } from "./dom.js";
import { say, status } from "./messages.js";
import { closeFrames, fetchApplied } from "./overlay.js";
import { send } from "./socket.js";
import { changed, state } from "./state.js";
import { cancelStroke } from "./strokes.js";

/** The picture that was asked for last; answers about others come too late. */
let wanted = /** @type {string|null} */ (null);

/** Show another picture. @param {string} name */
export async function openPicture(name) {
  if (name === state.picture?.name && name === wanted) return;
  wanted = name;
  status(`Opening ${name}…`);
  const picture = await getPicture(name).catch((error) => couldNotOpen(name, error));
  if (!picture || name !== wanted) return;
  state.unreadable.delete(name);
  cancelStroke(); // it belongs to the former picture
  closeFrames();
  hint("");
  Object.assign(state, { picture, strokes: picture.strokes, revision: picture.revision, depth: picture.depth, range: picture.range, evolving: false });
  state.source = picture.applied && (picture.applied_newer || !picture.strokes.length) ? "applied" : "live";
  status("");
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  document.title = `${name} · shapetailor`;
  for (const topic of /** @type {const} */ (["picture", "strokes", "frame", "tool"])) changed(topic);
  send({ type: "open", picture: name });
  if (picture.applied) void fetchApplied();
}

/** The former picture stays; keys step over one that the server cannot read. */
function couldNotOpen(name, error) {
  say(error.message, "error");
  if (error.status) state.unreadable.add(name);
  if (wanted === name) wanted = state.picture?.name ?? null;
  status("");
  changed("project");
}

let soon = 0;

/** While a model is applied, badges follow, at most once a second. */
export function refreshSoon() {
  soon ||= setTimeout(() => {
    soon = 0;
    void refreshProject();
  }, 1000);
}

const warned = new Set();

/** Ask the server for the project; it says over the socket when there is news. */
export async function refreshProject() {
  const project = await getProject().catch(cannotShow);
  if (!project) return;
  byId("trouble").hidden = true;
  if (state.project && project.folder !== state.project.folder) {
    anotherFolder();
    return;
  }
  const before = resultOf(state.project);
  state.project = project;
  state.job = project.job;
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

/** Without a project there is nothing else to look at: why stays on view. @param {Error} error */
function cannotShow(error) {
  if (state.project) say(error.message, "error");
  byId("trouble").hidden = Boolean(state.project);
  byId("trouble-words").textContent = error.message;
}

/** The server was started anew on another folder: what was drawn on the former one must not get into this one. */
function anotherFolder() {
  state.pending = [];
  location.replace(location.pathname);
}

const resultOf = (project) => project?.pictures.find((each) => each.name === state.picture?.name)?.state;

/** "Apply" has ended: show what it has written for the picture on view, if anything. */
export function showResult() {
  if (resultOf(state.project) === "applied") resultCame();
}

function resultCame() {
  state.picture.applied = true;
  state.source = "applied";
  void fetchApplied();
}

/** Words of the server about the picture on view. @param {string} text */
export function hint(text) {
  byId("hint").textContent = text;
  byId("hint").hidden = !text;
}
