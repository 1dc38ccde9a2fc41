/** Loads the WebAssembly module and calls it. How a file is opened differs between Node and browsers, so that is given. */

/** What a large file needed is not given back by WebAssembly, so an instance that holds more is not used again (bytes). */
const MAX_KEPT_BYTES = 128 * 2 ** 20;

/** `open` yields the bytes of a file, or a response with them. */
export function engine(open) {
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  let loaded; // the compiled module (`code`, a promise), and the exports of its instance (`running`) once there is one

  async function init(source) {
    if (loaded === undefined || source !== undefined) {
      const loading = { code: compile(source, open) };
      loaded = loading;
      // A file that could not be had may be there the next time.
      loading.code.catch(() => (loaded = loaded === loading ? undefined : loaded));
    }
    await loaded.code;
  }

  async function start() {
    await init();
    const mine = loaded;
    if (mine === undefined) return; // another `init` has failed meanwhile
    // All who wait get the same instance, which is set once: the first of them may have left it broken.
    mine.starting ??= mine.code
      .then((module) => WebAssembly.instantiate(module, {}))
      .then((instance) => (mine.running = instance.exports))
      .finally(() => (mine.starting = undefined));
    await mine.starting;
  }

  /** Calls the module with the bytes of path, text, update and format; its answer is text. */
  async function call(parts, hasFormat) {
    while (loaded?.running === undefined) await start();
    // From here on nothing is awaited, so calls do not meet.
    const mine = loaded;
    const { input, edit, output, panicked, memory } = mine.running;
    // The memory has another buffer whenever it has grown, and addresses beyond 2 GiB come as negative numbers.
    const read = (length) => decoder.decode(new Uint8Array(memory.buffer, output() >>> 0, length >>> 0));
    try {
      let at = input(parts.reduce((sum, part) => sum + part.length, 0)) >>> 0;
      for (const part of parts) {
        new Uint8Array(memory.buffer, at, part.length).set(part);
        at += part.length;
      }
      const answer = read(edit(parts[0].length, parts[1].length, parts[2].length, hasFormat));
      if (memory.buffer.byteLength > MAX_KEPT_BYTES) mine.running = undefined;
      return answer;
    } catch (cause) {
      mine.running = undefined; // whatever it was in the middle of: the next call starts another
      let why = `${cause.message} (out of memory, or nested too deeply)`;
      try {
        why = read(panicked()) || why;
      } catch {} // too broken to tell
      throw new Error(`the merge engine ended by a fault of its own and nothing is merged: ${why}`, { cause });
    }
  }

  async function edit(path, text, update, format) {
    const hasFormat = format !== undefined && format !== null;
    const given = { path, text, update, format: hasFormat ? format : "" };
    const parts = Object.entries(given).map(([name, value]) => encoder.encode(checked(name, value)));
    const answer = await call(parts, hasFormat);
    // A line of JSON, and the merged text below it.
    const end = answer.indexOf("\n");
    const { invalid, refused, changed, edits } = JSON.parse(end < 0 ? answer : answer.slice(0, end));
    if (invalid !== undefined) throw new TypeError(invalid);
    if (refused !== undefined) return { text: null, refused, changed: false, edits: [] };
    return { text: answer.slice(end + 1), refused: null, changed, edits };
  }

  return { init, edit, call };
}

/** Half of a surrogate pair has no form in UTF-8, and what an encoder writes instead is not what the file has. */
function checked(name, value) {
  if (typeof value !== "string") throw new TypeError(`${name} is no string`);
  const at = value.search(/\p{Surrogate}/u);
  if (at >= 0) throw new TypeError(`${name} has half of a surrogate pair at index ${at}, which no file can hold as text`);
  return value;
}

async function compile(source, open) {
  if (source instanceof WebAssembly.Module) return source;
  try {
    // The file beside this one, in a form by which bundlers know that they have to take it along.
    const from = source ?? new URL("./tokrate_apply.wasm", import.meta.url);
    const opened = await (from instanceof URL ? open(from) : from);
    if (ArrayBuffer.isView(opened) || opened instanceof ArrayBuffer) return await WebAssembly.compile(opened);
    if (!opened.ok) throw new Error(`HTTP status ${opened.status} of ${opened.url}`);
    // Some servers name it as something else.
    const isNamed = opened.headers.get("content-type") === "application/wasm";
    return await (isNamed ? WebAssembly.compileStreaming(opened) : WebAssembly.compile(await opened.arrayBuffer()));
  } catch (cause) {
    throw new Error(`load the merge engine (init can name its file): ${cause.message}`, { cause });
  }
}
