/** What the engine holds: no more after many calls, less after a large one, and a new instance after a fault. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { engine } from "../node_modules/tokrate-apply/engine.js";

/** An engine whose instances can be looked at. */
async function watched() {
  const instances = [];
  const { instantiate } = WebAssembly;
  WebAssembly.instantiate = async (...given) => {
    instances.push(await instantiate(...given));
    return instances.at(-1);
  };
  const made = engine((url) => readFile(url));
  await made.edit("a.txt", "a\n", "b\n", "whole_file");
  return { ...made, instances, bytes: () => instances.at(-1).exports.memory.buffer.byteLength };
}

const text = Array.from({ length: 200 }, (_, at) => `export function f${at}(x) {\n  return ${at} + x;\n}\n`).join("\n");
// Two unchanged lines at each end, so that it is merged without a syntax tree too.
const shown = "}\n\nexport function f7(x) {\n  return 7 * x;\n}\n\nexport function f8(x) {\n";
const update = `// ... existing code ...\n${shown}// ... existing code ...\n`;

test("10,000 calls leave nothing behind", async () => {
  const { edit, instances, bytes } = await watched();
  const round = async (calls) => {
    for (let call = 0; call < calls; call++) {
      const path = call % 10 === 0 ? "f.js" : "f.txt"; // with a syntax tree, and without
      const merged = await edit(path, text, call % 3 === 0 ? "no place\n" : update);
      assert.equal(merged.text === null, call % 3 === 0);
    }
  };
  await round(200);
  const before = bytes();
  await round(10_000);
  assert.equal(bytes(), before);
  assert.equal(instances.length, 1);
});

test("an instance that a large file has made large is not kept", async () => {
  const { edit, instances } = await watched();
  const line = "a line of a large file\n";
  const large = line.repeat((60 << 20) / line.length);
  assert.equal((await edit("a.txt", large, `${large}more\n`, "whole_file")).refused.code, "too_large"); // the update is
  const outcome = await edit("a.txt", large, '{"old_string": "a line of no file", "new_string": "x"}');
  assert.equal(outcome.refused.code, "no_anchor");
  assert.ok(instances.at(-1).exports.memory.buffer.byteLength > 128 * 2 ** 20);
  await edit("a.txt", "a\n", "b\n", "whole_file");
  assert.ok(instances.at(-1).exports.memory.buffer.byteLength < 64 * 2 ** 20);
});

test("a panic is an error that says so, and the next call has a new instance", async () => {
  const { edit, call, instances } = await watched();
  const bytes = (...all) => all.map((it) => Uint8Array.of(it));
  const others = Array.from({ length: 5 }, () => edit("a.txt", "a\n", "b\n", "whole_file"));
  await assert.rejects(call(bytes(0xff, 0xff, 0xff, 0xff), false), (error) => {
    assert.match(error.message, /nothing is merged: panicked at src\/lib\.rs:.*JavaScript writes UTF-8/s);
    return error.cause instanceof WebAssembly.RuntimeError;
  });
  assert.equal((await edit("a.txt", "a\n", "b\n", "whole_file")).text, "b\n");
  assert.deepEqual((await Promise.all(others)).map((it) => it.text), Array(5).fill("b\n"));
  assert.equal(instances.length, 2);
});

test("those who waited for an instance that the first of them has broken get another", async () => {
  const { edit, call } = engine((url) => readFile(url));
  const broken = call([[0xff], [0xff], [0xff], [0xff]].map((it) => Uint8Array.from(it)), false);
  const others = Array.from({ length: 5 }, () => edit("a.txt", "a\n", "b\n", "whole_file"));
  await assert.rejects(broken, /JavaScript writes UTF-8/);
  assert.deepEqual((await Promise.all(others)).map((it) => it.text), Array(5).fill("b\n"));
});

test("memory that cannot be had is an error too", async () => {
  const { edit, call } = await watched();
  const huge = { length: 0x7fff0000 }; // asked for, and never written
  const empty = new Uint8Array();
  await assert.rejects(call([huge, huge, empty, empty], false), /ended by a fault of its own/);
  assert.equal((await edit("a.txt", "a\n", "b\n", "whole_file")).text, "b\n");
});

test("a file that cannot be loaded is an error, and is tried again", async () => {
  let tries = 0;
  const open = (url) => (++tries === 1 ? new Response("gone", { status: 404 }) : readFile(url));
  const { edit, init } = engine(open);
  await assert.rejects(edit("a.txt", "a\n", "b\n", "whole_file"), /load the merge engine .*HTTP status 404/);
  assert.equal((await edit("a.txt", "a\n", "b\n", "whole_file")).text, "b\n");
  // And from elsewhere: bytes, a module, responses of either kind.
  const file = await readFile(new URL("../node_modules/tokrate-apply/tokrate_apply.wasm", import.meta.url));
  const headers = { "content-type": "application/wasm" };
  for (const source of [file, await WebAssembly.compile(file), new Response(file), Promise.resolve(new Response(file, { headers }))]) {
    await init(source);
    assert.equal((await edit("a.txt", "a\n", "b\n", "whole_file")).text, "b\n");
  }
});
