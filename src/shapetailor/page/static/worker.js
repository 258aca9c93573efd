/**
 * Off the main thread: label maps from PNG bytes to values, and from values to pictures.
 *
 * The browser's own decoder gives colours, of which two classes may have the same. Values are needed, so the PNG is
 * read here; only its inflating is the browser's.
 */

/** Read a gray or palette PNG that is not interlaced. @param {ArrayBuffer} buffer */
async function readPng(buffer) {
  const data = new DataView(buffer);
  const parts = [];
  let header = null;
  let colours = new Uint8Array(0);
  for (let at = 8; at + 8 <= buffer.byteLength; ) {
    const length = data.getUint32(at);
    const name = String.fromCharCode(...new Uint8Array(buffer, at + 4, 4));
    const content = new Uint8Array(buffer, at + 8, length);
    if (name === "IHDR") header = { width: data.getUint32(at + 8), height: data.getUint32(at + 12), depth: content[8], type: content[9] };
    else if (name === "PLTE") colours = content;
    else if (name === "IDAT") parts.push(content);
    at += 12 + length;
  }
  if (!header || ![0, 3].includes(header.type)) throw new Error("a label map must be a gray or palette PNG");
  const inflated = new Blob(parts).stream().pipeThrough(new DecompressionStream("deflate"));
  const lines = new Uint8Array(await new Response(inflated).arrayBuffer());
  const { width, height, depth, type } = header;
  const bytes = unfiltered(lines, Math.ceil((width * depth) / 8), height);
  const values = depth === 8 ? bytes : unpacked(bytes, width, height, depth, type === 0);
  return { width, height, values, colours: new Uint8Array(colours) };
}

/** Undo the filters of a PNG's lines; a pixel has at most one byte. */
function unfiltered(lines, width, height) {
  const out = new Uint8Array(width * height);
  for (let row = 0; row < height; row += 1) {
    const filter = lines[row * (width + 1)];
    const from = row * (width + 1) + 1;
    const to = row * width;
    if (filter === 0) {
      out.set(lines.subarray(from, from + width), to);
      continue;
    }
    for (let x = 0; x < width; x += 1) {
      const left = x ? out[to + x - 1] : 0;
      const up = row ? out[to + x - width] : 0;
      const corner = x && row ? out[to + x - width - 1] : 0;
      out[to + x] = lines[from + x] + predicted(filter, left, up, corner);
    }
  }
  return out;
}

function predicted(filter, left, up, corner) {
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

/** Values of 1, 2 or 4 bits, one a byte; gray ones stretched to 0..255. */
function unpacked(bytes, width, height, depth, gray) {
  const out = new Uint8Array(width * height);
  const [line, mask] = [Math.ceil((width * depth) / 8), (1 << depth) - 1];
  for (let row = 0; row < height; row += 1) {
    for (let x = 0; x < width; x += 1) {
      const bit = x * depth;
      const value = (bytes[row * line + (bit >> 3)] >> (8 - depth - (bit & 7))) & mask;
      out[row * width + x] = gray ? (value * 255) / mask : value;
    }
  }
  return out;
}

/** Shorter side that a map of lines has at most twice: larger maps give every second, third … pixel. */
const LINES_SIDE = 1024;

/** Paint values in colours (ABGR numbers by value), and the lines between unlike ones, `step` times as coarse. */
async function paint(values, width, height, colours) {
  const fill = new Uint32Array(values.length);
  for (let at = 0; at < values.length; at += 1) fill[at] = colours[values[at]];
  const step = Math.max(1, Math.floor(Math.min(width, height) / LINES_SIDE));
  const [columns, rows] = [Math.ceil(width / step), Math.ceil(height / step)];
  const lines = outlined(step > 1 ? everyNth(values, width, height, step) : values, columns, rows, colours);
  return { step, fill: await picture(fill, width, height), lines: await picture(lines, columns, rows) };
}

/** Every nth value across and down. */
function everyNth(values, width, height, step) {
  const out = new Uint8Array(Math.ceil(width / step) * Math.ceil(height / step));
  for (let row = 0, to = 0; row < height; row += step) {
    for (let at = row * width; at < (row + 1) * width; at += step, to += 1) out[to] = values[at];
  }
  return out;
}

/** Lines between unlike values: white, with a band of its colour on either side; wider in larger maps. */
function outlined(values, width, height, colours) {
  const distance = boundaryDistance(values, width, height);
  const side = Math.min(width, height);
  const core = Math.max(1, Math.round(side / 900));
  const reach = core + Math.max(2, Math.round(side / 300));
  const lines = new Uint32Array(values.length);
  for (let at = 0; at < lines.length; at += 1) {
    if (distance[at] >= reach) continue;
    const colour = colours[values[at]];
    lines[at] = distance[at] < core && colour ? 0xffffffff : colour;
  }
  return lines;
}

/** Steps to the nearest pixel unlike a neighbour, at most 255: two sweeps, down and up. */
function boundaryDistance(values, width, height) {
  const distance = new Uint8Array(values.length).fill(255);
  for (let row = 0, at = 0; row < height; row += 1) {
    for (let x = 0; x < width; x += 1, at += 1) {
      if (x + 1 < width && values[at + 1] !== values[at]) distance[at] = distance[at + 1] = 0;
      if (row + 1 < height && values[at + width] !== values[at]) distance[at] = distance[at + width] = 0;
    }
  }
  for (let row = 0, at = 0; row < height; row += 1) {
    for (let x = 0; x < width; x += 1, at += 1) {
      if (x && distance[at - 1] + 1 < distance[at]) distance[at] = distance[at - 1] + 1;
      if (row && distance[at - width] + 1 < distance[at]) distance[at] = distance[at - width] + 1;
    }
  }
  for (let row = height - 1, at = distance.length - 1; row >= 0; row -= 1) {
    for (let x = width - 1; x >= 0; x -= 1, at -= 1) {
      if (x + 1 < width && distance[at + 1] + 1 < distance[at]) distance[at] = distance[at + 1] + 1;
      if (row + 1 < height && distance[at + width] + 1 < distance[at]) distance[at] = distance[at + width] + 1;
    }
  }
  return distance;
}

const picture = (colours, width, height) =>
  createImageBitmap(new ImageData(new Uint8ClampedArray(colours.buffer), width, height));

/** White as opaque as the value is large. */
const veil = Uint32Array.from({ length: 256 }, (_, value) => ((value << 24) | 0xffffff) >>> 0);

const answers = {
  async labels({ bytes, colours }) {
    const { width, height, values, colours: own } = await readPng(bytes);
    const palette = colours ?? paletteOf(own);
    const painted = await paint(values, width, height, palette);
    return [{ values, columns: width, rows: height, palette, ...painted }, [values.buffer, painted.fill, painted.lines]];
  },
  async repaint({ values, columns, rows, colours }) {
    const painted = await paint(values, columns, rows, colours);
    return [painted, [painted.fill, painted.lines]];
  },
  async uncertainty({ bytes }) {
    const { width, height, values } = await readPng(bytes);
    const bitmap = await picture(Uint32Array.from(values, (value) => veil[value]), width, height);
    return [{ bitmap }, [bitmap]];
  },
};

/** The PNG's own colours; 0 and 255 are transparent. */
function paletteOf(colours) {
  return Uint32Array.from({ length: 256 }, (_, value) => {
    const [red, green, blue] = colours.subarray(3 * value, 3 * value + 3);
    if (value === 0 || value === 255 || blue === undefined) return 0;
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  });
}

self.onmessage = async ({ data: { id, kind, ...rest } }) => {
  try {
    const [answer, moved] = await answers[kind](rest);
    self.postMessage({ id, answer }, moved);
  } catch (error) {
    self.postMessage({ id, error: error instanceof Error ? error.message : String(error) });
  }
};
