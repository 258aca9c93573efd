/** The socket: strokes go out, label frames and news come in; after a break it comes back and repeats what was lost. */
import { STARTED_ANEW } from "./api.js";
import { say, status } from "./messages.js";
import { changed, state } from "./state.js";

const SLOWEST_RETRY_MS = 3000;
let socket = /** @type {WebSocket|null} */ (null);
let failures = 0;
let handlers = /** @type {Record<string, (message: any, bytes?: ArrayBuffer) => void>} */ ({});

/** Connect, now and after every break. @param {typeof handlers} given what to do with a message, by its type */
export function connect(given) {
  handlers = given;
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  socket = new WebSocket(`${scheme}://${location.host}/api/live`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => void opened();
  socket.onmessage = ({ data }) => receive(data);
  socket.onclose = () => void lost();
}

/** Connected is who knows that the same project is served: until then, what is drawn waits. */
async function opened() {
  const own = socket;
  await handlers.connected({});
  if (socket !== own || own.readyState !== WebSocket.OPEN) return;
  if (failures) status("Connected again.", true);
  failures = 0;
  state.connected = true;
  changed("connection");
}

async function lost() {
  state.connected = false;
  if (state.evolving) status("");
  state.evolving = false;
  changed("connection");
  failures += 1;
  if (failures === 1) say("Connection lost, trying again. What you draw is kept and sent later.", "error");
  else if (failures % 4 === 0 && (await isRefused())) say(STARTED_ANEW, "error");
  setTimeout(() => connect(handlers), Math.min(250 * 2 ** Math.min(failures, 6), SLOWEST_RETRY_MS));
}

const isRefused = () => fetch("/api/project").then((response) => response.status === 403, () => false);

/** Send a message if there is a connection; strokes that wait are sent again after the next `connected`. */
export function send(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

/** Send all that the server has not acknowledged; ids tell it what it has already. */
export function resendPending() {
  state.pending.forEach(send);
}

/** @param {string|ArrayBuffer} data */
function receive(data) {
  if (typeof data === "string") {
    const message = JSON.parse(data);
    handlers[message.type]?.(message);
    return;
  }
  const length = new DataView(data).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
  handlers.frame(header, data.slice(4 + length));
}
