/** The way in for browsers, and for whatever else has `fetch`. */
import { engine } from "./engine.js";

export const { edit, init } = engine((url) => fetch(url));
