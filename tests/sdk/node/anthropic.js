// Anthropic's SDK for Node against the gateway: messages and models.
// Invariant: what is asserted is what the SDK made of the answer, or what the scripted provider read of the request.
const { Anthropic } = require('@anthropic-ai/sdk');
const { zodOutputFormat } = require('@anthropic-ai/sdk/helpers/zod');
const { betaZodTool } = require('@anthropic-ai/sdk/helpers/beta/zod');
const { VERSION } = require('@anthropic-ai/sdk/version');
const { z } = require('zod');
const {
  ARGUMENTS, BEGINNING, GATEWAY, IMPATIENCE, KEY, LONG_TEXT, NARROW_KEY, PATIENCE, PICTURE_URL, PNG, PNG_SEEN, RESULTS, SAID,
  SMALL_KEY, SUITE, WIRES, all, assert, check, holds, raises, run, same, troubled,
} = require('./harness');

const client = new Anthropic({ apiKey: KEY, baseURL: GATEWAY, maxRetries: 0, timeout: PATIENCE });
const Person = z.object({ name: z.string(), age: z.number() });
const ADA = { name: 'Ada', age: 36 };
const SCHEMAS = {
  get_weather: z.object({ city: z.string(), days: z.number().int() }),
  get_time: z.object({ zone: z.string() }),
};
const TOOLS = [
  { name: 'get_weather', description: 'The weather of a city.', input_schema: z.toJSONSchema(SCHEMAS.get_weather) },
  { name: 'get_time', input_schema: z.toJSONSchema(SCHEMAS.get_time) },
];

const question = (mark) => ({ role: 'user', content: `Hello ${mark}` });
const what = (model, mark, more = {}) => ({ model, max_tokens: 64, messages: [question(mark)], ...more });
const ask = (model, mark, more = {}, options = {}) => client.messages.create(what(model, mark, more), options);
const texts = (message) => message.content.filter((block) => block.type === 'text').map((block) => block.text).join('');
const kindOf = (error) => [error.error.type, error.error.error.type];

const checkUsage = (usage) => {
  const { input, output, cached } = SAID.usage;
  // Anthropic counts what came from a cache beside the rest.
  same([usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens], [input - cached, cached, output]);
};

const checkCalls = (message) => {
  same([message.stop_reason, texts(message)], ['tool_use', 'Let me see.']);
  const calls = message.content.filter((block) => block.type === 'tool_use');
  same(calls.map((call) => call.name), ['get_weather', 'get_time']);
  same(Object.fromEntries(calls.map((call) => [call.id, call.input])), ARGUMENTS);
};

/** The form that every stream of events has: blocks one after the other, each begun and ended once. */
const checkOrder = (events) => {
  const kinds = events.map((event) => event.type);
  same([kinds[0], kinds.slice(-2)], ['message_start', ['message_delta', 'message_stop']]);
  let open = null;
  let count = 0;
  for (const { type, index } of events.slice(1, -2)) {
    if (type === 'content_block_start') {
      same([open, index], [null, count]);
      open = index;
      count += 1;
    } else {
      same(index, open);
      if (type === 'content_block_stop') open = null;
    }
  }
  same(open, null);
};

for (const wire of WIRES) {
  check(`messages plain on the ${wire} lane`, async (mark) => {
    const answer = await ask(`${wire}-plain`, mark, { system: 'Be brief.', temperature: 0.5 });
    same([texts(answer), answer.stop_reason, answer.role], [SAID.text, 'end_turn', 'assistant']);
    assert.ok(answer.id && answer.model, JSON.stringify(answer));
    checkUsage(answer.usage);
    const [seen] = await mark.seen();
    same([seen.system, seen.user], [['Be brief.'], [`Hello ${mark}`]]);
    same([seen.temperature, seen.max_tokens, seen.stream], [0.5, 64, false]);
  });

  check(`messages stream on the ${wire} lane: events in order`, async (mark) => {
    const events = await all(ask(`${wire}-plain`, mark, { stream: true }));
    checkOrder(events);
    const deltas = events.filter((event) => event.type === 'content_block_delta').map((event) => event.delta.text);
    same(deltas.join(''), SAID.text);
    assert.ok(deltas.length >= SAID.pieces.length, `${deltas.length} pieces`);
    const { delta, usage } = events.at(-2);
    same([delta.stop_reason, usage.output_tokens], ['end_turn', SAID.usage.output]);
  });

  check(`messages stream helper on the ${wire} lane: text and counts accumulated`, async (mark) => {
    let text = '';
    const stream = client.messages.stream(what(`${wire}-plain`, mark)).on('text', (delta) => (text += delta));
    const final = await stream.finalMessage();
    same([text, await stream.finalText(), final.stop_reason], [SAID.text, SAID.text, 'end_turn']);
    checkUsage(final.usage);
  });

  check(`messages tools in two turns on the ${wire} lane, streamed input in the first`, async (mark) => {
    let pieces = 0;
    const stream = client.messages.stream(what(`${wire}-tools`, mark, { tools: TOOLS })).on('inputJson', () => (pieces += 1));
    const first = await stream.finalMessage();
    checkCalls(first);
    assert.ok(pieces > 4, `input in ${pieces} pieces`);
    checkCalls(await ask(`${wire}-tools`, mark, { tools: TOOLS }));
    const results = Object.entries(RESULTS).map(([id, content]) => ({ type: 'tool_result', tool_use_id: id, content }));
    // The content as it came, as Anthropic's guides do it.
    const messages = [question(mark), { role: 'assistant', content: first.content }, { role: 'user', content: results }];
    same(texts(await ask(`${wire}-tools`, mark, { tools: TOOLS, messages })), 'It is 21 degrees and noon ☀.');
    const last = (await mark.seen()).at(-1);
    same(Object.fromEntries(Object.entries(last.calls).map(([id, call]) => [id, call.arguments])), ARGUMENTS);
    same([last.results, last.assistant], [RESULTS, ['Let me see.']]);
    same(last.tools.get_weather.required, ['city', 'days']);
  });

  check(`messages tool runner of the SDK on the ${wire} lane`, async (mark) => {
    const tool = (name, result) => {
      const answer = (given) => (same(given, ARGUMENTS[result]), RESULTS[result]);
      return betaZodTool({ name, description: name, inputSchema: SCHEMAS[name], run: answer });
    };
    const tools = [tool('get_weather', 'call_weather'), tool('get_time', 'call_time')];
    // The runner begins a thread, which this provider refuses in the words that make the runner go on without one; for lanes
    // of another dialect the gateway does, and asks nobody.
    const final = await client.beta.messages.toolRunner(what(`${wire}-tools`, mark, { tools }));
    same(texts(final), 'It is 21 degrees and noon ☀.');
    same((await mark.requests()).length, wire === 'anthropic' ? 3 : 2);
  });

  check(`messages with images on the ${wire} lane`, async (mark) => {
    const content = [
      { type: 'text', text: `What is it? ${mark}` },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
      { type: 'image', source: { type: 'url', url: PICTURE_URL } },
    ];
    const answer = await ask(`${wire}-sight`, mark, { messages: [{ role: 'user', content }] });
    same(texts(answer), `I see ${PNG_SEEN}, url:${PICTURE_URL}.`);
  });

  check(`messages parsed by a schema on the ${wire} lane, whole and streamed`, async (mark) => {
    const asked = what(`${wire}-json`, mark, { output_config: { format: zodOutputFormat(Person) } });
    same((await client.messages.parse(asked)).parsed_output, ADA);
    same((await client.messages.stream(asked).finalMessage()).parsed_output, ADA);
    same((await mark.seen()).map((seen) => Object.keys(seen.format.properties)), [['name', 'age'], ['name', 'age']]);
  });

  check(`messages cut short by the limit on the ${wire} lane: max_tokens`, async (mark) => {
    same((await ask(`${wire}-length`, mark)).stop_reason, 'max_tokens');
    same((await all(ask(`${wire}-length`, mark, { stream: true }))).at(-2).delta.stop_reason, 'max_tokens');
  });

  check(`messages with thinking on the ${wire} lane: a block of its own`, async (mark) => {
    const streamed = await client.messages.stream(what(`${wire}-think`, mark)).finalMessage();
    for (const message of [await ask(`${wire}-think`, mark), streamed]) {
      same(message.content.map((block) => block.type), ['thinking', 'text']);
      same([message.content[0].thinking, texts(message)], [SAID.thoughts, SAID.text]);
    }
    // Sent back as it came, which other dialects leave out.
    const messages = [question(mark), { role: 'assistant', content: streamed.content }, { role: 'user', content: 'And?' }];
    same(texts(await ask(`${wire}-plain`, mark, { messages })), SAID.text);
  });

  check(`messages errors on the ${wire} lane: 400, 401, 429, 502, each as its own class`, async (mark) => {
    const bad = await raises(Anthropic.BadRequestError, ask(troubled(wire, 'bad'), mark));
    holds(bad.message, 'temperature is too hot');
    same(kindOf(bad), ['error', 'invalid_request_error']);
    const limited = await raises(Anthropic.RateLimitError, ask(troubled(wire, 'limited'), mark));
    same([limited.headers.get('retry-after'), ...kindOf(limited)], ['1', 'error', 'rate_limit_error']);
    // A single lane's refusal of the gateway's key comes as the provider's own.
    for (const [scene, kind, status, type] of [
      ['failing', Anthropic.InternalServerError, 502, 'api_error'],
      ['unkeyed', Anthropic.AuthenticationError, 401, 'authentication_error'],
    ]) {
      const failed = await raises(kind, ask(troubled(wire, scene), mark));
      same([failed.status, ...kindOf(failed)], [status, 'error', type]);
      assert.ok(!JSON.stringify(failed.error).includes('sk-of'), failed.message);
    }
    await raises(Anthropic.InternalServerError, ask(troubled(wire, 'broken', 2), mark));
  });

  for (const scene of ['broken', 'told']) {
    check(`messages ${scene} stream on the ${wire} lane: an error after the text that came`, async (mark) => {
      let text = '';
      const read = async () => {
        const stream = client.messages.stream(what(troubled(wire, scene), mark));
        for await (const event of stream) {
          if (event.type === 'content_block_delta') text += event.delta.text;
          if (text === BEGINNING) await mark.release();
        }
        // An error that comes while the loop is busy ends it silently; it is heard here.
        await stream.done();
      };
      const error = await read().then(() => assert.fail('no error'), (thrown) => thrown);
      assert.ok(error instanceof Anthropic.APIError, `${error.constructor.name}: ${error.message}`);
      holds(['api_error', 'overloaded_error'], error.error.error.type);
      same(text, BEGINNING);
    });
  }

  check(`messages stream aborted by the client on the ${wire} lane: the provider's connection closes`, async (mark) => {
    const stream = client.messages.stream(what(troubled(wire, 'hold'), mark));
    stream.on('text', () => stream.abort());
    await raises(Anthropic.APIUserAbortError, stream.done());
    await mark.closed();
  });

  check(`messages aborted by a signal on the ${wire} lane: APIUserAbortError, the provider's connection closes`, async (mark) => {
    const abort = new AbortController();
    const answer = raises(Anthropic.APIUserAbortError, ask(troubled(wire, 'mute', 2), mark, {}, { signal: abort.signal }));
    await mark.begun();
    abort.abort();
    await answer;
    await mark.closed();
  });

  check(`messages timed out by the client on the ${wire} lane: its connection and the provider's close`, async (mark) => {
    const late = ask(troubled(wire, 'mute'), mark, {}, { timeout: IMPATIENCE });
    await raises(Anthropic.APIConnectionTimeoutError, late);
    await mark.closed();
  });
}

check('messages with stop_sequences, top_p and a forced tool on the chat lane', async (mark) => {
  const more = { stop_sequences: ['END', '###'], top_p: 0.25, tools: TOOLS, tool_choice: { type: 'tool', name: 'get_time' } };
  await ask('chat-tools', mark, more);
  const [seen] = await mark.seen();
  same([seen.stop, seen.top_p], [['END', '###'], 0.25]);
  same(seen.tool_choice, { type: 'function', function: { name: 'get_time' } });
});

check('messages with cache_control and betas reach their own dialect as they are', async (mark) => {
  const system = [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }];
  await ask('anthropic-plain', mark, { system }, { headers: { 'anthropic-beta': 'some-beta' } });
  const [request] = await mark.requests();
  holds(request.body, '"cache_control":{"type":"ephemeral"}');
  const headers = { 'x-api-key': 'sk-of-the-lane', 'anthropic-version': '2023-06-01', 'anthropic-beta': 'some-beta' };
  same(request.headers, headers);
  await ask('chat-plain', mark, { system });
  same((await mark.seen())[1].system, ['Be brief.']);
});

check("a field of nobody's is handed on in the same dialect and refused by name in another", async (mark) => {
  await ask('anthropic-plain', mark, { x_custom: 1 });
  holds((await mark.requests())[0].body, '"x_custom":1');
  const error = await raises(Anthropic.BadRequestError, ask('chat-plain', mark, { x_custom: 1 }));
  holds(error.error.error.message, 'x_custom');
});

check('a refusal: its stop reason on the anthropic lane, its words on the chat lane', async (mark) => {
  same((await ask('anthropic-refusal', mark)).stop_reason, 'refusal');
  same(texts(await ask('chat-refusal', mark)), "I can't do that.");
});

check('rate limit: the SDK tries again after Retry-After and gets the answer; RateLimitError if it stays', async (mark) => {
  same(texts(await ask(troubled('anthropic', 'limited-once'), mark, {}, { maxRetries: 1 })), SAID.text);
  await raises(Anthropic.RateLimitError, ask(troubled('anthropic', 'limited', 2), mark, {}, { maxRetries: 1 }));
  same((await mark.requests()).length, 4);
});

check('headers of the gateway and the provider through withResponse', async (mark) => {
  const { data, response, request_id } = await ask('anthropic-alias', mark).withResponse();
  same([texts(data), request_id], [SAID.text, 'req_scripted']);
  const told = (name) => response.headers.get(`x-tokrate-${name}`);
  same([told('provider'), told('winner'), told('attempts')], ['scripted', 'anthropic-plain', '1']);
  assert.ok(told('call') && Number(told('answer-ms')) > 0 && Number(told('race-cost-usd')) === 0);
  const streamed = await ask('chat-alias', mark, { stream: true }).asResponse();
  same(streamed.headers.get('x-tokrate-winner'), 'chat-plain');
  holds(await streamed.text(), 'event: message_stop');
});

check('keys: x-api-key and bearer are taken; a wrong one is an AuthenticationError, one for few names a PermissionDeniedError', async (mark) => {
  const bearer = new Anthropic({ apiKey: null, authToken: KEY, baseURL: GATEWAY, maxRetries: 0, timeout: PATIENCE });
  same(texts(await bearer.messages.create(what('anthropic-plain', mark))), SAID.text);
  const stranger = client.withOptions({ apiKey: 'sk-of-a-stranger' });
  const unknown = await raises(Anthropic.AuthenticationError, stranger.messages.create(what('anthropic-plain', mark)));
  same(kindOf(unknown), ['error', 'authentication_error']);
  const narrow = client.withOptions({ apiKey: NARROW_KEY });
  const denied = await raises(Anthropic.PermissionDeniedError, narrow.messages.create(what('anthropic-tools', mark)));
  same(kindOf(denied), ['error', 'permission_error']);
});

check('an unknown model: NotFoundError; models: list, retrieve, unknown', async (mark) => {
  same(kindOf(await raises(Anthropic.NotFoundError, ask('no-such-model', mark))), ['error', 'not_found_error']);
  holds((await all(client.models.list())).map((model) => model.id), 'anthropic-alias');
  const model = await client.models.retrieve('anthropic-alias');
  same([model.id, model.type, model.display_name], ['anthropic-alias', 'model', 'anthropic-alias']);
  assert.ok(!Number.isNaN(Date.parse(model.created_at)), model.created_at);
  await raises(Anthropic.NotFoundError, client.models.retrieve('no-such-model'));
});

check('the simulated engine: whole and streamed, with the right counts', async (mark) => {
  const whole = await ask('sim', mark, { max_tokens: 12 });
  same([whole.stop_reason, whole.usage.output_tokens], ['max_tokens', 12]);
  const final = await client.messages.stream(what('sim', mark, { max_tokens: 12 })).finalMessage();
  assert.ok(texts(whole) && texts(final), JSON.stringify(final));
  same([final.usage.input_tokens, final.usage.output_tokens], [whole.usage.input_tokens, 12]);
});

check('failover before the first byte, over lanes of three dialects: whole, streamed, and from an answer that breaks off', async (mark) => {
  for (const [scene, stream] of [['failing', false], ['limited', true], ['broken', false]]) {
    const { data, response } = await ask(`${scene}-then-well-${SUITE}`, mark, { stream }).withResponse();
    same(['attempts', 'winner'].map((name) => response.headers.get(`x-tokrate-${name}`)), ['3', 'responses-plain']);
    const deltas = stream ? (await all(data)).map((event) => event.delta?.text ?? '') : [texts(data)];
    same(deltas.join(''), SAID.text);
  }
  const order = ['chat', 'anthropic', 'responses'];
  same((await mark.requests()).map((request) => request.dialect), [...order, ...order, ...order]);
});

check('a race of lanes of three dialects: one whole answer, whoever wins', async (mark) => {
  const { data, response } = await ask('race', mark).withResponse();
  same([response.headers.get('x-tokrate-attempts'), texts(data)], ['3', SAID.text]);
  same(await client.messages.stream(what('race', mark)).finalText(), SAID.text);
});

check('long answers of every dialect, piece by piece and whole', async (mark) => {
  for (const wire of WIRES) {
    same(await client.messages.stream(what(`${wire}-long`, mark)).finalText(), LONG_TEXT);
    same(texts(await ask(`${wire}-long`, mark)), LONG_TEXT);
  }
});

check('a key that used up its requests a minute: RateLimitError with Retry-After', async (mark) => {
  const small = client.withOptions({ apiKey: SMALL_KEY });
  same(texts(await small.messages.create(what('anthropic-plain', mark))), SAID.text);
  const error = await raises(Anthropic.RateLimitError, small.messages.create(what('anthropic-plain', mark)));
  assert.ok(Number(error.headers.get('retry-after')) > 0);
  same([...kindOf(error), (await mark.requests()).length], ['error', 'rate_limit_error', 1]);
});

check('twelve streams at once, each its own', async (mark) => {
  const one = (number) => client.messages.stream(what(`${WIRES[number % 3]}-plain`, mark)).finalText();
  same(await Promise.all([...Array(12).keys()].map(one)), Array(12).fill(SAID.text));
});

run(`anthropic node ${VERSION}`);
