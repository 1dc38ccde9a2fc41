/** The way in for Node: the module is a file. */
import { readFile } from "node:fs/promises";
import { engine } from "./engine.js";

export const { edit, init } = engine((url) => (url.protocol === "file:" ? readFile(url) : fetch(url)));
