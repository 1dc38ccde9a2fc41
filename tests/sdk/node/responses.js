// OpenAI's SDK for Node against the gateway: responses. Part of the suite of `openai.js`.
const { OpenAI } = require('openai');
const { zodResponsesFunction, zodTextFormat } = require('openai/helpers/zod');
const { z } = require('zod');
const {
  ARGUMENTS, BEGINNING, IMPATIENCE, PICTURE_URL, PNG, PNG_SEEN, RESULTS, SAID, WIRES, all, assert, check, holds, raises, same,
  troubled,
} = require('./harness');

const Person = z.object({ name: z.string(), age: z.number() });
const ADA = { name: 'Ada', age: 36 };
const TOOLS = [
  zodResponsesFunction({ name: 'get_weather', parameters: z.object({ city: z.string(), days: z.number().int() }) }),
  zodResponsesFunction({ name: 'get_time', parameters: z.object({ zone: z.string() }) }),
];
const ENDS = ['response.completed', 'response.incomplete', 'response.failed', 'error'];

const checkUsage = (usage) => {
  const { input, output, cached } = SAID.usage;
  same([usage.input_tokens, usage.output_tokens, usage.total_tokens], [input, output, input + output]);
  same(usage.input_tokens_details.cached_tokens, cached);
};

const joined = (events, type) => events.filter((event) => event.type === type).map((event) => event.delta).join('');
const thoughts = (item) => [...item.summary, ...(item.content ?? [])].map((part) => part.text).join('');

/** The form that every stream of events has. */
const checkOrder = (events) => {
  same(events.map((event) => event.sequence_number), events.map((_, index) => index));
  same(events[0].type, 'response.created');
  const items = (type) => events.filter((event) => event.type === type).map((event) => event.item.id);
  same(items('response.output_item.added'), items('response.output_item.done'));
  same(items('response.output_item.added'), events.at(-1).response.output.map((item) => item.id));
};

const onEveryWire = (client, wire) => {
  const { responses } = client;

  check(`responses plain on the ${wire} lane`, async (mark) => {
    const what = { instructions: 'Be brief.', input: `Hello ${mark}`, temperature: 0.5, max_output_tokens: 64 };
    const answer = await responses.create({ model: `${wire}-plain`, ...what });
    same([answer.output_text, answer.status, answer.error ?? null], [SAID.text, 'completed', null]);
    checkUsage(answer.usage);
    const [seen] = await mark.seen();
    same([seen.system, seen.user], [['Be brief.'], [`Hello ${mark}`]]);
    same([seen.temperature, seen.max_tokens, seen.stream], [0.5, 64, false]);
  });

  check(`responses stream on the ${wire} lane, raw and through the helper`, async (mark) => {
    const what = { model: `${wire}-plain`, input: `Hello ${mark}` };
    const events = await all(responses.create({ ...what, stream: true }));
    same(joined(events, 'response.output_text.delta'), SAID.text);
    checkOrder(events);
    checkUsage(events.at(-1).response.usage);
    const stream = responses.stream(what);
    let text = '';
    stream.on('response.output_text.delta', ({ delta }) => (text += delta));
    const final = await stream.finalResponse();
    same([text, final.output_text, final.status], [SAID.text, SAID.text, 'completed']);
    checkUsage(final.usage);
  });

  check(`responses tools in two turns on the ${wire} lane, streamed arguments in the first`, async (mark) => {
    const history = [{ role: 'user', content: `Hello ${mark}` }];
    const stream = responses.stream({ model: `${wire}-tools`, input: history, tools: TOOLS });
    let pieces = 0;
    stream.on('response.function_call_arguments.delta', () => (pieces += 1));
    const first = await stream.finalResponse();
    const calls = first.output.filter((item) => item.type === 'function_call');
    same(calls.map((call) => [call.call_id, call.name]), [['call_weather', 'get_weather'], ['call_time', 'get_time']]);
    same(calls.map((call) => call.parsed_arguments), Object.values(ARGUMENTS));
    same(first.output_text, 'Let me see.');
    assert.ok(pieces > 4, `arguments in ${pieces} pieces`);
    // The output as it came, as OpenAI's guides do it.
    const { output } = await responses.create({ model: `${wire}-tools`, input: history, tools: TOOLS });
    const results = Object.entries(RESULTS).map(([id, text]) => ({ type: 'function_call_output', call_id: id, output: text }));
    const input = [...history, ...output, ...results];
    const answer = await responses.create({ model: `${wire}-tools`, input, tools: TOOLS });
    same(answer.output_text, 'It is 21 degrees and noon ☀.');
    const last = (await mark.seen()).at(-1);
    same(Object.fromEntries(Object.entries(last.calls).map(([id, call]) => [id, call.arguments])), ARGUMENTS);
    same([last.results, last.assistant], [RESULTS, ['Let me see.']]);
  });

  check(`responses with images on the ${wire} lane`, async (mark) => {
    const content = [
      { type: 'input_text', text: `What is it? ${mark}` },
      { type: 'input_image', image_url: `data:image/png;base64,${PNG}`, detail: 'auto' },
      { type: 'input_image', image_url: PICTURE_URL, detail: 'auto' },
    ];
    const answer = await responses.create({ model: `${wire}-sight`, input: [{ role: 'user', content }] });
    same(answer.output_text, `I see ${PNG_SEEN}, url:${PICTURE_URL}.`);
  });

  check(`responses parsed by a schema on the ${wire} lane, whole and streamed`, async (mark) => {
    const what = { model: `${wire}-json`, input: `Who? ${mark}`, text: { format: zodTextFormat(Person, 'person') } };
    same((await responses.parse(what)).output_parsed, ADA);
    same((await responses.stream(what).finalResponse()).output_parsed, ADA);
    same((await mark.seen()).map((seen) => Object.keys(seen.format.properties)), [['name', 'age'], ['name', 'age']]);
  });

  check(`responses cut short by the limit on the ${wire} lane: incomplete`, async (mark) => {
    const what = { model: `${wire}-length`, input: `Hello ${mark}`, max_output_tokens: 16 };
    const answer = await responses.create(what);
    same([answer.status, answer.incomplete_details.reason], ['incomplete', 'max_output_tokens']);
    same((await all(responses.create({ ...what, stream: true }))).at(-1).type, 'response.incomplete');
  });

  check(`responses with reasoning on the ${wire} lane: an item of its own`, async (mark) => {
    const what = { model: `${wire}-think`, input: `Hello ${mark}` };
    const events = await all(responses.create({ ...what, stream: true }));
    checkOrder(events);
    for (const { output, output_text } of [await responses.create(what), events.at(-1).response]) {
      same(output.map((item) => item.type), ['reasoning', 'message']);
      same(thoughts(output[0]), SAID.thoughts);
      assert.ok(output_text === undefined || output_text === SAID.text, output_text);
      same(output[1].content[0].text, SAID.text);
    }
  });

  check(`responses errors on the ${wire} lane: 400, 429, 502, each as its own class`, async (mark) => {
    const ask = (scene) => responses.create({ model: troubled(wire, scene, 2), input: `Hello ${mark}` });
    holds((await raises(OpenAI.BadRequestError, ask('bad'))).message, 'temperature is too hot');
    same((await raises(OpenAI.RateLimitError, ask('limited-once'))).headers.get('retry-after'), '1');
    same((await raises(OpenAI.InternalServerError, ask('failing'))).status, 502);
  });

  check(`responses broken stream on the ${wire} lane: no response.completed, and an error`, async (mark) => {
    let text = '';
    const ends = [];
    try {
      const what = { model: troubled(wire, 'told', 2), input: `Hello ${mark}`, stream: true };
      for await (const event of await responses.create(what)) {
        if (event.type === 'response.output_text.delta') text += event.delta;
        if (ENDS.includes(event.type)) ends.push(event.type);
        if (text === BEGINNING) await mark.release();
      }
    } catch (error) {
      ends.push(error.constructor.name);
    }
    same(text, BEGINNING);
    assert.ok(ends.length === 1 && ['error', 'response.failed', 'APIError'].includes(ends[0]), ends.join());
  });

  check(`responses stream aborted by the client on the ${wire} lane: the provider's connection closes`, async (mark) => {
    const stream = await responses.create({ model: troubled(wire, 'hold', 2), input: `Hello ${mark}`, stream: true });
    for await (const event of stream) {
      assert.ok(event.type);
      stream.controller.abort();
    }
    await mark.closed();
  });
};

module.exports = (client) => {
  for (const wire of WIRES) onEveryWire(client, wire);

  check('responses of the simulated engine, whole and streamed', async (mark) => {
    const what = { model: 'sim', input: `Hello ${mark}`, max_output_tokens: 12 };
    const whole = await client.responses.create(what);
    assert.ok(whole.output_text && whole.usage.output_tokens === 12, JSON.stringify(whole));
    const events = await all(client.responses.create({ ...what, stream: true }));
    same([events.at(-1).type, events.at(-1).response.usage], ['response.incomplete', whole.usage]);
  });

  check('responses timed out by the client: APIConnectionTimeoutError, the provider\'s connection closes', async (mark) => {
    const what = { model: troubled('responses', 'mute', 2), input: `Hello ${mark}` };
    await raises(OpenAI.APIConnectionTimeoutError, client.responses.create(what, { timeout: IMPATIENCE }));
    await mark.closed();
  });
};
