/** Pictures dropped into the window or chosen from the disk. */
import { upload } from "./api.js";
import { byId } from "./dom.js";
import { say, status } from "./messages.js";

let added = /** @type {(name: string) => Promise<void>} */ (async () => {});

/** Send the files one after the other; one that is refused does not stop the rest. @param {Iterable<File>} files */
async function addFiles(files) {
  const all = [...files];
  let opened = false;
  for (const [number, file] of all.entries()) {
    status(`Adding ${file.name} (${number + 1} of ${all.length})…`);
    try {
      const { name } = await upload(file);
      if (!opened) await added(name);
      opened = true;
    } catch (error) {
      say(error.message.startsWith(file.name) ? error.message : `${file.name}: ${error.message}`, "error");
    }
  }
  status("");
}

const hasFiles = (event) => event.dataTransfer?.types.includes("Files");

/** @param {(name: string) => Promise<void>} whenAdded called with the first picture that was added */
export function startUpload(whenAdded) {
  added = whenAdded;
  const input = byId("file-input");
  byId("add-pictures").onclick = () => input.click();
  byId("choose-pictures").onclick = () => input.click();
  input.onchange = () => {
    void addFiles(input.files);
    input.value = "";
  };
  const veil = byId("drop-veil");
  window.addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    veil.hidden = false;
  });
  window.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) veil.hidden = true;
  });
  window.addEventListener("drop", (event) => {
    veil.hidden = true;
    if (!hasFiles(event)) return;
    event.preventDefault();
    void addFiles(event.dataTransfer.files);
  });
}
