/** A page imports the package from a server on loopback, without a bundler, and edits; the browser is the one given, headless. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { json } from "node:stream/consumers";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";

const BROWSER = process.env.TOKRATE_BROWSER;
const PACKAGE = new URL("../node_modules/tokrate-apply/", import.meta.url);
const CASES = await readFile(`${process.env.TOKRATE_ROOT}/packages/cases.json`, "utf8");
/** A browser takes seconds to start on a busy machine (ms). */
const LATEST_MS = 60_000;
const KINDS = { js: "text/javascript", wasm: "application/wasm" };
const PAGE = `<!doctype html><script type="module">
  const outcomes = [];
  try {
    const { edit } = await import("/package/browser.js");
    for (const it of await (await fetch("/cases")).json()) outcomes.push(await edit(it.path, it.text, it.update, it.format));
  } catch (error) {
    outcomes.push(String(error));
  }
  await fetch("/outcomes", { method: "POST", body: JSON.stringify(outcomes) });
</script>`;

/** Serves page, cases and package; `answered` gets what the page sends back. */
function serve(isWasmNamed, answered) {
  return createServer(async (request, response) => {
    const name = request.url.split("/").at(-1);
    if (request.url === "/") return response.setHeader("content-type", "text/html").end(PAGE);
    if (name === "cases") return response.end(CASES);
    if (name === "outcomes") return answered(json(request));
    const bytes = await readFile(new URL(name, PACKAGE)).catch(() => undefined);
    if (bytes === undefined) return response.writeHead(404).end();
    if (isWasmNamed || name.endsWith(".js")) response.setHeader("content-type", KINDS[name.split(".").at(-1)]);
    response.end(bytes);
  });
}

/** Starts a browser with a page, and resolves once it has ended; it ends by itself when this process does. */
function open(page, profile) {
  const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
  flags.push("--disable-component-update", "--disable-sync", "--disable-breakpad", "--disable-dev-shm-usage");
  flags.push("--remote-debugging-pipe", `--user-data-dir=${profile}`, page);
  const stdio = ["ignore", "ignore", "ignore", "pipe", "pipe"];
  const browser = spawn(BROWSER, flags, { stdio, env: { ...process.env, HOME: profile } });
  return { browser, ended: new Promise((resolve) => browser.once("exit", resolve).once("error", resolve)) };
}

for (const isWasmNamed of [true, false]) {
  test(`a page edits, the module served ${isWasmNamed ? "as WebAssembly" : "without its kind"}`, async () => {
    let answered;
    const answer = new Promise((resolve) => (answered = resolve));
    const server = serve(isWasmNamed, answered);
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const profile = await mkdtemp(join(tmpdir(), "tokrate-apply-browser-"));
    const { browser, ended } = open(`http://127.0.0.1:${server.address().port}/`, profile);
    const late = new AbortController();
    try {
      const seen = await Promise.race([
        answer,
        ended.then((how) => Promise.reject(new Error(`${BROWSER} has ended: ${how}`))),
        setTimeout(LATEST_MS, undefined, late).then(() => Promise.reject(new Error("the page has sent nothing"))),
      ]);
      const cases = JSON.parse(CASES);
      assert.deepEqual(seen.map((it) => it.text), cases.map((it) => it.merged ?? null), JSON.stringify(seen));
      assert.deepEqual(seen.map((it) => it.refused?.code), cases.map((it) => it.refused));
    } finally {
      late.abort();
      browser.kill("SIGKILL");
      await ended;
      server.close();
      server.closeAllConnections();
      await rm(profile, { recursive: true, force: true, maxRetries: 10 });
    }
  });
}
