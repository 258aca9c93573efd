/** What can be read off: areas, the comparison with a truth, and downloads. */
import { getFile, getMetrics, pictureUrl } from "./api.js";
import { byId, make, percent, refill, svg, swatch, term } from "./dom.js";
import { attempt, status } from "./messages.js";
import { changed, classes, on, shownFrame, shownSource, state } from "./state.js";

const PICTURE_KINDS = [
  ["labels.png", "Label map", "PNG"],
  ["overlay.png", "Overlay with legend", "PNG"],
  ["uncertainty.png", "Uncertainty", "PNG"],
  ["table.csv", "Areas", "CSV"],
  ["geojson", "Outlines for QuPath", "GeoJSON"],
  ["coco.json", "Outlines for COCO's tools", "JSON"],
  ["rois.zip", "Regions for ImageJ", "ZIP"],
  ["ome.tif", "Label map", "OME-TIFF"],
];
const STROKES = ["strokes.json", "Strokes", "JSON"];
const PROJECT_KINDS = [
  ["results.zip", "All label maps, overlays, tables", "ZIP", "applied"],
  ["table.csv", "Areas of all pictures", "CSV", "applied"],
  ["summary.csv", "Mean fractions with intervals", "CSV", "applied"],
  ["geojson.zip", "All outlines for QuPath", "GeoJSON", "applied"],
  ["coco.zip", "All outlines for COCO's tools", "JSON", "applied"],
  ["imagej.zip", "All regions for ImageJ", "ZIP", "applied"],
  ["ome-tiff.zip", "All label maps", "OME-TIFF", "applied"],
  ["model.safetensors", "The model", "safetensors", "model"],
  ["project.zip", "Project without pictures", "ZIP", "project"],
];

/** Draw a share as a bar in its colour. */
function bar(share, color) {
  return svg(
    "svg",
    { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { width: (100 * share).toFixed(2), height: 8, fill: color }),
  );
}

/** Name and colour of a region: its number, and the map's own colour. */
function legend(frame, value) {
  const colour = frame.palette[value];
  const hex = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255].map((part) => part.toString(16).padStart(2, "0"));
  return { name: `region ${value}`, color: `#${hex.join("")}` };
}

function areaRow({ name, color, value, fraction, pixels }) {
  const known = fraction !== undefined;
  const title = known ? `${name}: ${pixels} pixels` : name;
  const cells = [
    make("td", {}, make("span", { className: "who", title }, swatch(color), make("span", { textContent: name }))),
    make("td", { className: "bar" }, bar(known ? fraction : 0, color)),
    make("td", { className: "share", textContent: known ? percent(fraction) : "–" }),
  ];
  return make("tr", { "data-value": value }, ...cells);
}

/** A row for each class, or for each region while there are no classes; without figures as long as there are none. */
function areaRows() {
  const frame = shownFrame();
  if (frame?.stage === "evolving") return frame.table.map((row) => ({ ...row, ...legend(frame, row.value) }));
  const found = new Map((frame?.table ?? []).map((row) => [row.value, row]));
  const none = frame ? { fraction: 0, pixels: 0 } : {};
  return classes().map((each) => ({ ...each, ...none, ...found.get(each.value) }));
}

function showAreas() {
  byId("areas").tBodies[0].replaceChildren(...areaRows().map(areaRow));
  const hasBoth = Boolean(state.picture?.applied);
  byId("source").hidden = !hasBoth;
  for (const button of byId("source").children) {
    button.setAttribute("aria-pressed", String(button.dataset.source === shownSource()));
    button.disabled = button.dataset.source === "live" && !state.frames.live;
  }
  showDownloads();
}

/** The last question about metrics, so that older answers are dropped. */
let question = 0;

async function showMetrics() {
  const frame = shownFrame();
  byId("truth").hidden = !state.project?.pictures.some((each) => each.truth); // so that nothing jumps between pictures
  question += 1;
  if (frame?.stage === "preview") return;
  if (!frame || frame.stage === "evolving" || !state.picture?.truth) {
    byId("truth-line").textContent = "–";
    byId("metrics").replaceChildren();
    return;
  }
  const asked = question;
  const found = await getMetrics(state.picture.name, shownSource()).catch(() => null);
  if (asked !== question) return;
  byId("truth-line").textContent = found ? `accuracy ${found.accuracy.toFixed(3)}` : "–";
  byId("metrics").replaceChildren(...figures(found ?? {}));
}

const WORDS = { mean_iou: "mean IoU", iou: "IoU" };

/** Turn figures of any depth into terms. */
function figures(found, prefix = "") {
  return Object.entries(found).flatMap(([key, value]) => {
    const name = prefix + (WORDS[key] ?? key.replaceAll("_", " "));
    if (value === null || value === undefined) return [];
    if (typeof value === "object") return figures(value, `${name} `);
    return term(name, typeof value === "number" && !Number.isInteger(value) ? value.toFixed(3) : String(value));
  });
}

function entry(href, words, format) {
  const onclick = (event) => {
    event.preventDefault();
    void download(href, words);
  };
  return make("li", {}, make("a", { href, download: "", "data-key": href.split("?")[0], onclick }, words, make("span", { textContent: format })));
}

/** Fetch a file and give it to the browser. A browser that fetches it by itself does not show why the server refuses. */
async function download(href, words) {
  status(`Preparing ${words}…`);
  const file = await attempt(getFile(href));
  status("");
  if (!file) return;
  const url = URL.createObjectURL(file.content);
  make("a", { href: url, download: file.name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

function showDownloads() {
  const picture = state.picture;
  const result = picture && shownFrame() && shownFrame().stage !== "evolving" ? PICTURE_KINDS : [];
  const kinds = drawn() ? [...result, STROKES] : result;
  const url = (kind) => pictureUrl(picture.name, `/download/${kind}?source=${shownSource()}`);
  refill(byId("download-picture"), ...kinds.map(([kind, words, format]) => entry(url(kind), words, format)));
  byId("download-picture-none").hidden = kinds.length > 0;
  const there = { model: Boolean(state.project?.model), project: state.project?.kind === "project", applied: anyApplied() };
  const all = PROJECT_KINDS.filter(([, , , needs]) => there[needs]);
  refill(byId("download-all"), ...all.map(([kind, words, format]) => entry(`/api/download/${kind}`, words, format)));
  byId("download-all").parentElement.hidden = all.length === 0;
}

function closeDownloads() {
  byId("downloads").open = false;
  byId("downloads").querySelector("summary").focus();
}

const drawn = () => state.strokes.length > 0;
const anyApplied = () => Boolean(state.project?.pictures.some((each) => each.state === "applied"));

/** @param {"live"|"applied"} source */
export function chooseSource(source) {
  state.source = source;
  changed("frame");
}

export function startResults() {
  for (const button of byId("source").children) button.onclick = () => chooseSource(button.dataset.source);
  on(["frame", "picture", "project", "strokes"], showAreas);
  on(["frame", "picture"], () => void showMetrics());
  document.addEventListener("pointerdown", (event) => {
    const menu = byId("downloads");
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  byId("downloads").addEventListener("click", (event) => {
    if (event.target.closest("a")) closeDownloads();
  });
  byId("downloads").addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeDownloads();
  });
}
