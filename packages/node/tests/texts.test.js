/** Texts of every kind arrive and come back as they are. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { edit } from "tokrate-apply";

const block = (old, line) => `<<<<<<< SEARCH\n${old}\n=======\n${line}\n>>>>>>> REPLACE\n`;

/** Numbers from a seed (mulberry32), so that a failure comes again. */
function numbers(seed) {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let x = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) % below;
  };
}

test("one line of odd ones is replaced, and all others stay", async () => {
  const signs = ["a", " ", "\t", "é", "ß", "漢", "😀", "👩‍👩‍👧", "e\u0301", "\u2028", "\u00a0", "\ufeff", "\u200d", "\uffff", "\u{10ffff}", "<", "}", "\\", '"'];
  for (let seed = 1; seed <= 500; seed++) {
    const next = numbers(seed);
    const ends = ["\n", "\r\n"][next(2)];
    const line = () => Array.from({ length: next(12) }, () => signs[next(signs.length)]).join("");
    const lines = Array.from({ length: 1 + next(20) }, line);
    const at = next(lines.length);
    lines[at] = `the place ${line()}.`;
    const bom = next(4) === 0 ? "\ufeff" : "";
    const last = next(2) === 0 ? ends : "";
    const text = bom + lines.join(ends) + last;
    const to = `another ${line()}!`;
    const outcome = await edit("notes.txt", text, block(lines[at], to));
    const expected = bom + lines.with(at, to).join(ends) + last;
    assert.equal(outcome.text, expected, `seed ${seed}: ${JSON.stringify(outcome.refused)}`);
  }
});

test("half of a surrogate pair is an error that names where", async () => {
  for (const half of ["\ud83d", "\ude00", "\ude00\ud83d"]) {
    const place = { name: "TypeError", message: /half of a surrogate pair at index 2/ };
    await assert.rejects(edit("a.txt", `ab${half}`, "x"), place);
    await assert.rejects(edit("a.txt", "ab", `ab${half}`), place);
    await assert.rejects(edit(`ab${half}`, "a", "b"), place);
  }
  assert.equal((await edit("a.txt", "😀\n", block("😀", "😃"))).text, "😃\n");
});

test("what is no string, and what is no format, are errors", async () => {
  await assert.rejects(edit("a.txt", undefined, "x"), { name: "TypeError", message: "text is no string" });
  await assert.rejects(edit("a.txt", Buffer.from("a"), "x"), { name: "TypeError", message: "text is no string" });
  for (const format of ["nonsense", "", "Lazy"]) {
    await assert.rejects(edit("a.txt", "a", "b", format), { name: "TypeError", message: /is no format; write one of lazy/ });
  }
  for (const format of [undefined, null, "search_replace"]) {
    assert.equal((await edit("a.txt", "a\n", block("a", "b"), format)).text, "b\n");
  }
});

test("a file with a NUL is no text, and a new file is made of nothing", async () => {
  assert.equal((await edit("a.bin", "a\0b\n", block("a\0b", "c"))).refused.code, "not_text");
  assert.equal((await edit("", "", "\ufeffone\r\n", "whole_file")).text, "\ufeffone\r\n");
});

test("a file of 5 MB is edited", async () => {
  const lines = Array.from({ length: 130_000 }, (_, at) => `${at}: déjà vu 😀, once more and again`);
  const text = lines.join("\n") + "\n";
  assert.ok(Buffer.byteLength(text) > 5_000_000);
  const outcome = await edit("big.txt", text, block(lines[99_999], "other"));
  assert.equal(outcome.text, lines.with(99_999, "other").join("\n") + "\n");
  assert.deepEqual(outcome.edits, [{ old_start: 100_000, old_count: 1, new_start: 100_000, new_count: 1 }]);
});

test("a file that is too large is refused, and the next edit works", async () => {
  const { refused } = await edit("big.txt", "line\n".repeat((65 << 20) / 5), block("line", "other"));
  assert.equal(refused.code, "too_large");
  assert.equal((await edit("a.txt", "a\n", block("a", "b"))).text, "b\n");
});

test("many edits at once do not meet", async () => {
  const all = Array.from({ length: 200 }, (_, at) => edit("a.txt", `x${at}\n`, block(`x${at}`, `y${at}`)));
  assert.deepEqual((await Promise.all(all)).map((it) => it.text), all.map((_, at) => `y${at}\n`));
});
