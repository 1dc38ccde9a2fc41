// Runs named checks one after the other and says what came of each.
//
// It refuses to know SDKs. Invariant: every check that was registered is told of in one line, and the last line of a suite
// names the version that was checked.
const assert = require('node:assert/strict');

const { SDK_GATEWAY: GATEWAY, SDK_UPSTREAM: UPSTREAM, SDK_KEY: KEY, SDK_NARROW_KEY: NARROW_KEY } = process.env;
const { SDK_SUITE: SUITE, SDK_ONLY: ONLY, SDK_SMALL_KEY: SMALL_KEY } = process.env;
// What the scripted provider says: its texts and counts.
const SAID = JSON.parse(process.env.SDK_SAID);
// What a long answer says.
const LONG_TEXT = SAID.text.repeat(SAID.long);
// What comes of an answer that breaks off.
const BEGINNING = SAID.pieces.slice(0, 2).join('');
const WIRES = ['chat', 'responses', 'anthropic'];
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const PNG_SEEN = 'image/png:70:1c492093';
const PICTURE_URL = 'https://pictures.example/cat.png';
const ARGUMENTS = { call_weather: { city: 'Köln "Mitte"', days: 12 }, call_time: { zone: 'Europe/Berlin' } };
const RESULTS = { call_weather: '21 degrees', call_time: 'noon ☀' };
// Answers come at once; whoever waits this long (ms) waits in vain.
const PATIENCE = 20_000;
// Shorter than the answer of a provider that does not answer (ms).
const IMPATIENCE = 1000;

const checks = [];

/** Registers a check; it is given a mark, by which the scripted provider knows its requests. */
const check = (name, run) => checks.push({ name, run });

/** A lane that makes trouble, this suite's own. */
const troubled = (wire, scene, variant = 1) => `${wire}-${scene}-${SUITE}-${variant}`;

/** The mark of a check's requests. */
class Mark {
  constructor(mark) {
    this.mark = mark;
  }

  toString() {
    return `[mark:${this.mark}]`;
  }

  /** What the scripted provider got. */
  async requests(page = '/ledger') {
    const answer = await fetch(`${UPSTREAM}${page}?mark=${this.mark}`);
    assert.equal(answer.status, 200, `${page} says ${answer.status}`);
    return answer.json();
  }

  /** How the scripted provider read each of them. */
  async seen() {
    return (await this.requests()).map((request) => request.seen);
  }

  /** Lets an answer break off whose beginning was read. */
  release() {
    return this.requests('/ledger/release');
  }

  /** Waits until the scripted provider got a request. */
  begun() {
    return this.requests('/ledger/begun');
  }

  /** Waits until the gateway closed its connection; an error if it does not. */
  closed() {
    return this.requests('/ledger/closed');
  }
}

/** Runs everything. */
const run = async (version) => {
  for (const [number, { name, run: runCheck }] of checks.entries()) {
    if (!`${SUITE}: ${name}`.includes(ONLY)) continue;
    try {
      await runCheck(new Mark(`${SUITE}.${number}`));
      console.log(`ok ${SUITE}: ${name}`);
    } catch (error) {
      const place = /\w+\.js:\d+/g;
      const own = (error.stack ?? '').match(place)?.find((line) => !line.startsWith('harness')) ?? '';
      const said = `${error.constructor?.name}: ${error.message}`.replaceAll('\n', ' ').slice(0, 600);
      console.log(`FAIL ${SUITE}: ${name}: ${said} (${own})`);
    }
  }
  console.log(`versions ${version}`);
};

const same = (actual, expected) => assert.deepEqual(actual, expected);

const holds = (whole, part) => assert.ok(whole.includes(part), `${JSON.stringify(part)} is not in ${JSON.stringify(whole)}`);

/** The error of that class, and no other, that a promise ends with. */
const raises = async (kind, promise) => {
  let value;
  try {
    value = await promise;
  } catch (error) {
    assert.equal(error.constructor.name, kind.name, `${error.constructor.name} instead of ${kind.name}: ${error.message}`);
    return error;
  }
  assert.fail(`no ${kind.name} but ${JSON.stringify(value)}`);
};

/** Everything that comes, in a list. */
const all = async (stream) => {
  const pieces = [];
  for await (const piece of await stream) pieces.push(piece);
  return pieces;
};

process.on('unhandledRejection', (error) => {
  console.log(`FAIL ${SUITE}: a promise was rejected and nobody heard it: ${error}`);
});

module.exports = {
  ARGUMENTS, BEGINNING, GATEWAY, IMPATIENCE, KEY, LONG_TEXT, NARROW_KEY, PATIENCE, PICTURE_URL, PNG, PNG_SEEN, RESULTS, SAID,
  SMALL_KEY, SUITE, WIRES, all, assert, check, holds, raises, run, same, troubled,
};
