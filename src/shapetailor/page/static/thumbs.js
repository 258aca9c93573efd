/** The strip of thumbnails. Images are fetched when they come into view, and rows out of view are not laid out (CSS). */
import { pictureUrl, request } from "./api.js";
import { byId, icon, make } from "./dom.js";
import { changed, on, state } from "./state.js";

const list = byId("thumb-list");
const WORDS = { untouched: "not marked yet", marked: "marked", applied: "result there", failed: "could not be read" };
/** Rows by name, so that a change of state keeps images and focus. */
const rows = /** @type {Map<string, any>} */ (new Map());
let open = /** @type {(name: string) => void} */ (() => {});

function makeRow(picture) {
  const image = make("img", { loading: "lazy", decoding: "async", alt: "", draggable: false, hidden: true });
  image.onerror = () => void notLoaded(picture.name, image);
  const badges = make("span", { className: "badges" });
  const button = make(
    "button",
    { type: "button", className: "thumb", tabIndex: -1, "data-name": picture.name, onclick: () => open(picture.name) },
    make("span", { className: "small-picture" }, image),
    badges,
    make("span", { className: "name", textContent: picture.name }),
  );
  return { item: make("li", {}, button), button, badges, image };
}

function show() {
  const pictures = state.project?.pictures ?? [];
  for (const picture of pictures) {
    if (!rows.has(picture.name)) rows.set(picture.name, makeRow(picture));
    update(picture);
  }
  const items = pictures.map((picture) => rows.get(picture.name).item);
  if (!rows.has(state.picture?.name) && pictures.length) rows.get(pictures[0].name).button.tabIndex = 0;
  if (items.length !== list.children.length || items.some((item, place) => list.children[place] !== item)) list.replaceChildren(...items);
  byId("picture-count").textContent = pictures.length ? String(pictures.length) : "";
}

function update(picture) {
  const { button, badges, image } = rows.get(picture.name);
  if (!picture.error && image.dataset.version !== picture.version) {
    if (image.dataset.version) state.unreadable.delete(picture.name); // it is another file
    image.dataset.version = picture.version;
    image.hidden = false;
    image.src = pictureUrl(picture.name, `/thumb.jpg?v=${picture.version}`);
  }
  const states = [state.unreadable.has(picture.name) ? "failed" : picture.state];
  if (picture.state === "applied" && picture.marks !== "none") states.unshift("marked");
  const words = [picture.name, ...states.map((each) => WORDS[each])].join(", ");
  button.setAttribute("aria-label", words);
  button.title = picture.error ? `${picture.file}: ${picture.error}` : words;
  if (badges.dataset.states === states.join(" ")) return;
  badges.dataset.states = states.join(" ");
  const seen = states.filter((each) => each !== "untouched");
  badges.replaceChildren(...seen.map((each) => make("span", { className: `badge ${each}` }, icon(each))));
}

/** Where the server cannot make a small picture, it cannot open the picture either; perhaps it is only away. */
async function notLoaded(name, image) {
  image.hidden = true;
  const reason = await request(image.src).then(() => null, (error) => error);
  if (!reason?.status) return void delete image.dataset.version; // it is asked for again with the next news
  state.unreadable.add(name);
  return changed("project");
}

/** One stop of the Tab key for the whole strip; arrow keys go from picture to picture, Enter opens. */
function walk(event) {
  const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  const buttons = [...list.querySelectorAll(".thumb")];
  const next = buttons[buttons.indexOf(document.activeElement) + step];
  if (!step || !next) return;
  event.preventDefault();
  event.stopPropagation();
  for (const each of buttons) each.tabIndex = each === next ? 0 : -1;
  next.focus();
}

function showCurrent() {
  for (const [name, { button }] of rows) {
    const current = name === state.picture?.name;
    button.tabIndex = current ? 0 : -1;
    button.setAttribute("aria-current", String(current));
    if (current) button.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

/** Names of the pictures that can be opened, as far as is known. */
export const readable = () =>
  (state.project?.pictures ?? []).filter((each) => each.state !== "failed" && !state.unreadable.has(each.name)).map((each) => each.name);

/** Open the next or the former picture. @param {number} step */
export function stepPicture(step) {
  const names = readable();
  const place = names.indexOf(state.picture?.name) + step;
  if (place >= 0 && place < names.length) open(names[place]);
}

/** @param {(name: string) => void} opener */
export function startThumbs(opener) {
  open = opener;
  on(["project"], show);
  on(["picture"], showCurrent);
  list.addEventListener("keydown", walk);
  new ResizeObserver(showCurrent).observe(list);
}
