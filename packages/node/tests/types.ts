/** What `tsc --noEmit` is run on: the types must take this as it is, and refuse what `@ts-expect-error` stands above. */
import { edit, init, type Edit, type Format, type Outcome, type Refused } from "tokrate-apply";

export async function merged(path: string, text: string, update: string): Promise<string> {
  const outcome: Outcome = await edit(path, text, update);
  if (outcome.text !== null) {
    const edits: readonly Edit[] = outcome.edits;
    return outcome.changed ? outcome.text : `${edits.length} edits`;
  }
  const refused: Refused = outcome.refused;
  const [first, last] = refused.candidates[0] ?? [0, 0];
  return `${refused.code}: ${refused.message} (${first + last}); ${refused.hint}`;
}

const formats: Format[] = ["lazy", "whole_file"];
for (const format of formats) await edit("a.js", "", "", format);
await edit("a.js", "", "", null);
await init();
await init(fetch("/tokrate_apply.wasm"));
await init(new URL("file:///tokrate_apply.wasm"));
await init(new Uint8Array());

// @ts-expect-error no such format
await edit("a.js", "", "", "nonsense");
// @ts-expect-error an update is a string
await edit("a.js", "", 7);
// @ts-expect-error it may be refused, and then there is no text
(await edit("a.js", "", "")).text.length;
