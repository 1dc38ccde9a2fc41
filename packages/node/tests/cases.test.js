/** The cases that all packages share, and the small ones of the library: here they must come out as there. */
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { edit } from "tokrate-apply";

const ROOT = process.env.TOKRATE_ROOT;

for (const given of JSON.parse(readFileSync(`${ROOT}/packages/cases.json`, "utf8"))) {
  test(`shared: ${given.name}`, async () => {
    const outcome = await edit(given.path, given.text, given.update, given.format);
    assert.equal(outcome.text, given.merged ?? null);
    assert.equal(outcome.refused?.code, given.refused);
    if (outcome.text !== null) {
      assert.equal(outcome.changed, given.changed ?? true);
      assert.equal(outcome.edits.length > 0, outcome.changed);
    }
    if (given.candidates) assert.deepEqual(outcome.refused.candidates, given.candidates);
  });
}

const skip = process.env.TOKRATE_GRAMMARS === "no" && "some cases need a grammar, and there are none in this build";
test("every small case of the library comes out as the library has it", { skip }, async () => {
  const folder = `${ROOT}/crates/apply/tests/cases`;
  let count = 0;
  const isFolder = (entry) => entry.isDirectory();
  for (const { name } of readdirSync(folder, { withFileTypes: true }).filter(isFolder)) {
    const files = readdirSync(`${folder}/${name}`);
    const file = (stem) => files.find((file) => file.replace(/\.[^.]*$/, "") === stem);
    const bytes = (file) => readFileSync(`${folder}/${name}/${file}`);
    const text = (file) => bytes(file).toString();
    if (Buffer.compare(Buffer.from(text(file("original"))), bytes(file("original"))) !== 0) continue; // not UTF-8
    const outcome = await edit(file("original"), text(file("original")), text("update.txt"));
    if (file("wrong")) { // a known fault
      assert.equal(outcome.text, text(file("wrong")), name);
    } else if (file("likeliest")) { // what it would become, were it certain enough
      assert.ok(outcome.refused, name);
    } else if (file("expected")) {
      assert.equal(outcome.text, text(file("expected")), `${name}: ${outcome.refused?.message}`);
    } else { // by one of these codes
      const codes = text("refused.txt").split("\n")[0].split(" or ");
      assert.ok(codes.includes(outcome.refused?.code), `${name}: ${outcome.refused?.message}`);
    }
    count += 1;
  }
  assert.ok(count >= 100, `${count} cases`);
});

test("the types name every format", async () => {
  const { message } = await edit("a", "b", "c", "nonsense").catch((error) => error);
  const names = message.split("write one of ")[1].split(", ");
  const types = readFileSync(new URL("../node_modules/tokrate-apply/index.d.ts", import.meta.url), "utf8");
  const declared = types.match(/type Format =([^;]*);/)[1].match(/\w+/g);
  assert.deepEqual(declared, names);
});

test("a letter beyond ASCII is to a scanner of a grammar what it is in a Rust program", { skip }, async () => {
  const update = "<<<<<<< SEARCH\n  c: d;\n=======\n  a é b { c: d; }\n>>>>>>> REPLACE\n";
  assert.equal((await edit("a.css", "b {\n  c: d;\n}\n", update)).refused?.code, "syntax_regression");
});
