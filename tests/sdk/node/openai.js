// OpenAI's SDK for Node against the gateway: chat completions, completions, embeddings, models; `responses.js` has the rest.
// Invariant: what is asserted is what the SDK made of the answer, or what the scripted provider read of the request.
const { OpenAI } = require('openai');
const { zodFunction, zodResponseFormat } = require('openai/helpers/zod');
const { VERSION } = require('openai/version');
const { z } = require('zod');
const {
  ARGUMENTS, BEGINNING, GATEWAY, IMPATIENCE, KEY, LONG_TEXT, NARROW_KEY, PATIENCE, PICTURE_URL, PNG, PNG_SEEN, RESULTS, SAID,
  SMALL_KEY, SUITE, WIRES, all, assert, check, holds, raises, run, same, troubled,
} = require('./harness');

const client = new OpenAI({ apiKey: KEY, baseURL: `${GATEWAY}/v1`, maxRetries: 0, timeout: PATIENCE });
const { completions } = client.chat;
const Person = z.object({ name: z.string(), age: z.number() });
const ADA = { name: 'Ada', age: 36 };
const SCHEMAS = {
  get_weather: z.object({ city: z.string(), days: z.number().int() }),
  get_time: z.object({ zone: z.string() }),
};
const TOOLS = Object.entries(SCHEMAS).map(([name, parameters]) => zodFunction({ name, parameters }));

const asked = (mark, text = 'Hello') => [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: `${text} ${mark}` },
];
const ask = (model, mark, more = {}, options = {}) => completions.create({ model, messages: asked(mark), ...more }, options);

const checkUsage = (usage) => {
  const { input, output, cached } = SAID.usage;
  same([usage.prompt_tokens, usage.completion_tokens, usage.total_tokens], [input, output, input + output]);
  same(usage.prompt_tokens_details.cached_tokens, cached);
};

const checkCalls = ({ finish_reason, message }) => {
  same([finish_reason, message.content], ['tool_calls', 'Let me see.']);
  same(message.tool_calls.map(({ id, type, function: { name } }) => [id, type, name]), [
    ['call_weather', 'function', 'get_weather'],
    ['call_time', 'function', 'get_time'],
  ]);
  same(Object.fromEntries(message.tool_calls.map((call) => [call.id, JSON.parse(call.function.arguments)])), ARGUMENTS);
};

for (const wire of WIRES) {
  check(`chat plain on the ${wire} lane`, async (mark) => {
    const answer = await ask(`${wire}-plain`, mark, { temperature: 0.5, max_completion_tokens: 64 });
    const { message, finish_reason } = answer.choices[0];
    same([message.role, message.content, finish_reason], ['assistant', SAID.text, 'stop']);
    same(answer.object, 'chat.completion');
    assert.ok(answer.id && answer.model && answer.created > 1_700_000_000, JSON.stringify(answer));
    checkUsage(answer.usage);
    const [seen] = await mark.seen();
    same([seen.system, seen.user], [['Be brief.'], [`Hello ${mark}`]]);
    same([seen.temperature, seen.max_tokens, seen.stream], [0.5, 64, false]);
  });

  check(`chat stream on the ${wire} lane: no usage that was not asked for`, async (mark) => {
    const chunks = await all(ask(`${wire}-plain`, mark, { stream: true }));
    same(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), SAID.text);
    same(chunks[0].choices[0].delta.role, 'assistant');
    same(chunks.map((chunk) => chunk.choices[0].finish_reason).filter(Boolean), ['stop']);
    same(chunks.filter((chunk) => chunk.usage), []);
    assert.ok(chunks.length >= SAID.pieces.length, `${chunks.length} chunks`);
  });

  check(`chat stream with include_usage on the ${wire} lane`, async (mark) => {
    const chunks = await all(ask(`${wire}-plain`, mark, { stream: true, stream_options: { include_usage: true } }));
    const counted = chunks.filter((chunk) => chunk.usage);
    same(counted.map((chunk) => chunk.choices), [[]]);
    same(counted[0], chunks.at(-1));
    checkUsage(counted[0].usage);
  });

  check(`chat stream helper on the ${wire} lane`, async (mark) => {
    const stream = completions.stream({ model: `${wire}-plain`, messages: asked(mark) });
    let text = '';
    stream.on('content', (delta) => (text += delta));
    const { choices } = await stream.finalChatCompletion();
    same([text, choices[0].message.content, choices[0].finish_reason], [SAID.text, SAID.text, 'stop']);
  });

  check(`chat tools with streamed arguments on the ${wire} lane, the message sent back as it came`, async (mark) => {
    const done = [];
    let pieces = 0;
    const stream = completions.stream({ model: `${wire}-tools`, messages: asked(mark), tools: TOOLS });
    stream.on('tool_calls.function.arguments.delta', () => (pieces += 1));
    stream.on('tool_calls.function.arguments.done', ({ index, name }) => done.push([index, name]));
    const [choice] = (await stream.finalChatCompletion()).choices;
    checkCalls(choice);
    same(choice.message.tool_calls.map((call) => call.function.parsed_arguments), Object.values(ARGUMENTS));
    same(done, [[0, 'get_weather'], [1, 'get_time']]);
    assert.ok(pieces > 4, `arguments in ${pieces} pieces`);
    const { choices } = await ask(`${wire}-tools`, mark, { tools: TOOLS });
    checkCalls(choices[0]);
    const results = Object.entries(RESULTS).map(([id, content]) => ({ role: 'tool', tool_call_id: id, content }));
    const answer = await ask(`${wire}-tools`, mark, { tools: TOOLS, messages: [...asked(mark), choices[0].message, ...results] });
    same(answer.choices[0].message.content, 'It is 21 degrees and noon ☀.');
    const last = (await mark.seen()).at(-1);
    same(Object.fromEntries(Object.entries(last.calls).map(([id, call]) => [id, call.arguments])), ARGUMENTS);
    same([last.results, last.assistant], [RESULTS, ['Let me see.']]);
  });

  check(`chat runTools of the SDK on the ${wire} lane, whole and streamed`, async (mark) => {
    const tool = (name, result) => ({
      type: 'function',
      function: {
        name, description: name, parse: JSON.parse, parameters: z.toJSONSchema(SCHEMAS[name]),
        function: (given) => (same(given, ARGUMENTS[result]), RESULTS[result]),
      },
    });
    const tools = [tool('get_weather', 'call_weather'), tool('get_time', 'call_time')];
    for (const stream of [false, true]) {
      const runner = completions.runTools({ model: `${wire}-tools`, messages: asked(mark), tools, stream });
      same(await runner.finalContent(), 'It is 21 degrees and noon ☀.');
    }
    same((await mark.requests()).length, 4);
  });

  check(`chat with images on the ${wire} lane`, async (mark) => {
    const content = [
      { type: 'text', text: `What is it? ${mark}` },
      { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } },
      { type: 'image_url', image_url: { url: PICTURE_URL } },
    ];
    const answer = await ask(`${wire}-sight`, mark, { messages: [{ role: 'user', content }] });
    same(answer.choices[0].message.content, `I see ${PNG_SEEN}, url:${PICTURE_URL}.`);
  });

  check(`chat parsed by a schema on the ${wire} lane, whole and streamed`, async (mark) => {
    const what = { model: `${wire}-json`, messages: asked(mark), response_format: zodResponseFormat(Person, 'person') };
    same((await completions.parse(what)).choices[0].message.parsed, ADA);
    same((await completions.stream(what).finalChatCompletion()).choices[0].message.parsed, ADA);
    same((await mark.seen()).map((seen) => Object.keys(seen.format.properties)), [['name', 'age'], ['name', 'age']]);
  });

  check(`chat cut short by the limit on the ${wire} lane`, async (mark) => {
    same((await ask(`${wire}-length`, mark, { max_tokens: 8 })).choices[0].finish_reason, 'length');
    const chunks = await all(ask(`${wire}-length`, mark, { max_tokens: 8, stream: true }));
    same(chunks.at(-1).choices[0].finish_reason, 'length');
    same((await mark.seen()).map((seen) => seen.max_tokens), [8, 8]);
  });

  check(`chat with reasoning on the ${wire} lane: told apart from the answer`, async (mark) => {
    const { message } = (await ask(`${wire}-think`, mark)).choices[0];
    same([message.content, message.reasoning_content], [SAID.text, SAID.thoughts]);
    const deltas = (await all(ask(`${wire}-think`, mark, { stream: true }))).map((chunk) => chunk.choices[0].delta);
    same(deltas.map((delta) => delta.reasoning_content ?? '').join(''), SAID.thoughts);
    same(deltas.map((delta) => delta.content ?? '').join(''), SAID.text);
  });

  check(`chat errors on the ${wire} lane: 400, 401, 429, 502, each as its own class`, async (mark) => {
    const bad = await raises(OpenAI.BadRequestError, ask(troubled(wire, 'bad'), mark));
    holds(bad.message, 'temperature is too hot');
    same(bad.type, 'invalid_request_error');
    const limited = await raises(OpenAI.RateLimitError, ask(troubled(wire, 'limited'), mark));
    same(limited.headers.get('retry-after'), '1');
    // A single lane's refusal of the gateway's key comes as the provider's own.
    for (const [scene, kind, status] of [
      ['failing', OpenAI.InternalServerError, 502],
      ['unkeyed', OpenAI.AuthenticationError, 401],
    ]) {
      const failed = await raises(kind, ask(troubled(wire, scene), mark));
      same(failed.status, status);
      assert.ok(!JSON.stringify(failed.error).includes('sk-of'), failed.message);
    }
    await raises(OpenAI.InternalServerError, ask(troubled(wire, 'broken', 2), mark));
  });

  for (const scene of ['broken', 'told']) {
    check(`chat ${scene} stream on the ${wire} lane: APIError after the text that came`, async (mark) => {
      let text = '';
      const read = async () => {
        for await (const chunk of await ask(troubled(wire, scene), mark, { stream: true })) {
          text += chunk.choices[0].delta.content ?? '';
          if (text === BEGINNING) await mark.release();
          same(chunk.choices[0].finish_reason ?? null, null);
        }
      };
      await raises(OpenAI.APIError, read());
      same(text, BEGINNING);
    });
  }

  check(`chat stream aborted by the client on the ${wire} lane: the provider's connection closes`, async (mark) => {
    const stream = await ask(troubled(wire, 'hold'), mark, { stream: true });
    for await (const chunk of stream) {
      assert.ok(chunk.choices);
      stream.controller.abort();
    }
    await mark.closed();
  });

  check(`chat aborted by a signal on the ${wire} lane: APIUserAbortError, the provider's connection closes`, async (mark) => {
    const abort = new AbortController();
    const answer = raises(OpenAI.APIUserAbortError, ask(troubled(wire, 'mute', 2), mark, {}, { signal: abort.signal }));
    await mark.begun();
    abort.abort();
    await answer;
    await mark.closed();
  });

  check(`chat timed out by the client on the ${wire} lane: APIConnectionTimeoutError, the provider's connection closes`, async (mark) => {
    const options = { timeout: IMPATIENCE };
    await raises(OpenAI.APIConnectionTimeoutError, ask(troubled(wire, 'mute'), mark, {}, options));
    await mark.closed();
    await raises(OpenAI.APIConnectionTimeoutError, ask(troubled(wire, 'mute'), mark, { stream: true }, options));
    await mark.closed();
  });
}

check('chat refusal on the chat lane, whole and from the stream helper', async (mark) => {
  const { message } = (await ask('chat-refusal', mark)).choices[0];
  same([message.refusal, message.content], ["I can't do that.", null]);
  const final = await completions.stream({ model: 'chat-refusal', messages: asked(mark) }).finalChatCompletion();
  same(final.choices[0].message.refusal, "I can't do that.");
});

check('chat JSON mode on the chat and responses lanes', async (mark) => {
  for (const wire of ['chat', 'responses']) {
    const answer = await ask(`${wire}-json`, mark, { response_format: { type: 'json_object' } });
    same(answer.choices[0].message.content, '{"name":"Ada","age":36}');
  }
  same((await mark.seen()).map((seen) => seen.format), ['object', 'object']);
});

check("a field of nobody's is handed on in the same dialect and refused by name in another", async (mark) => {
  await ask('chat-plain', mark, { x_custom: { deep: [1, 2] } });
  holds((await mark.requests())[0].body, '"x_custom":{"deep":[1,2]}');
  for (const more of [{ x_custom: 1 }, { logit_bias: { 50256: -100 } }, { n: 2 }]) {
    const error = await raises(OpenAI.BadRequestError, ask('anthropic-plain', mark, more));
    holds(error.message, Object.keys(more)[0]);
  }
});

check('rate limit: the SDK tries again after Retry-After and gets the answer; RateLimitError if it stays', async (mark) => {
  const once = await ask(troubled('chat', 'limited-once'), mark, {}, { maxRetries: 1 });
  same(once.choices[0].message.content, SAID.text);
  await raises(OpenAI.RateLimitError, ask(troubled('chat', 'limited', 2), mark, {}, { maxRetries: 1 }));
  same((await mark.requests()).length, 4);
});

check('headers of the gateway and the provider through withResponse', async (mark) => {
  const { data, response, request_id } = await ask('chat-alias', mark).withResponse();
  same([data.choices[0].message.content, request_id], [SAID.text, 'req_scripted']);
  const told = (name) => response.headers.get(`x-tokrate-${name}`);
  same([told('provider'), told('winner'), told('attempts'), Number(told('race-cost-usd'))], ['scripted', 'chat-plain', '1', 0]);
  assert.ok(told('call') && Number(told('overhead-us')) >= 0 && Number(told('answer-ms')) > 0);
  const streamed = await ask('anthropic-alias', mark, { stream: true }).withResponse();
  same(streamed.response.headers.get('x-tokrate-winner'), 'anthropic-plain');
  same((await all(streamed.data)).map((chunk) => chunk.choices[0].delta.content ?? '').join(''), SAID.text);
});

check('keys: a wrong one is an AuthenticationError, one for few names a PermissionDeniedError', async (mark) => {
  const stranger = client.withOptions({ apiKey: 'sk-of-a-stranger' });
  const what = { model: 'chat-tools', messages: asked(mark) };
  const error = await raises(OpenAI.AuthenticationError, stranger.chat.completions.create(what));
  assert.ok(!JSON.stringify(error.error).includes('sk-of'), error.message);
  await raises(OpenAI.AuthenticationError, stranger.models.list());
  const narrow = client.withOptions({ apiKey: NARROW_KEY });
  await raises(OpenAI.PermissionDeniedError, narrow.chat.completions.create(what));
});

check('an unknown model: NotFoundError; none at all: BadRequestError', async (mark) => {
  holds((await raises(OpenAI.NotFoundError, ask('no-such-model', mark))).message, 'no-such-model');
  await raises(OpenAI.BadRequestError, ask(undefined, mark));
});

check('models: list, retrieve, unknown', async () => {
  const names = (await all(client.models.list())).map((model) => model.id);
  for (const name of ['chat-plain', 'anthropic-plain', 'chat-alias', 'sim']) holds(names, name);
  const model = await client.models.retrieve('chat-alias');
  same([model.id, model.object], ['chat-alias', 'model']);
  await raises(OpenAI.NotFoundError, client.models.retrieve('no-such-model'));
});

check('completions: plain, stream, stream with include_usage', async (mark) => {
  const what = { model: 'completions-plain', prompt: `Say it ${mark}` };
  const answer = await client.completions.create(what);
  same([answer.choices[0].text, answer.choices[0].finish_reason], [SAID.text, 'stop']);
  checkUsage(answer.usage);
  const chunks = await all(client.completions.create({ ...what, stream: true }));
  same(chunks.map((chunk) => chunk.choices[0].text).join(''), SAID.text);
  const counted = await all(client.completions.create({ ...what, stream: true, stream_options: { include_usage: true } }));
  checkUsage(counted.at(-1).usage);
});

check('embeddings: one text, several, as base64 and as numbers', async (mark) => {
  const text = `é ${mark}`;
  const answer = await client.embeddings.create({ model: 'embeddings', input: [text, 'more'] });
  same(answer.data.map((row) => row.embedding), [[text.length, 0, 0.5], [4, 1, 0.5]]);
  same(answer.usage.prompt_tokens, 8);
  const numbers = await client.embeddings.create({ model: 'embeddings', input: text, encoding_format: 'float' });
  same(numbers.data[0].embedding, [text.length, 0, 0.5]);
});

check('the simulated engine: chat and completions, whole and streamed, with the right counts', async (mark) => {
  const what = { model: 'sim', max_tokens: 12, messages: asked(mark) };
  const whole = await completions.create(what);
  assert.ok(whole.choices[0].message.content && whole.usage.completion_tokens === 12, JSON.stringify(whole));
  const chunks = await all(completions.create({ ...what, stream: true, stream_options: { include_usage: true } }));
  same(chunks.at(-1).usage, whole.usage);
  const texts = await all(client.completions.create({ model: 'sim', max_tokens: 12, prompt: 'Go', stream: true }));
  assert.ok(texts.map((chunk) => chunk.choices[0].text).join(''));
});

check('failover before the first byte, over lanes of three dialects: whole, streamed, and from an answer that breaks off', async (mark) => {
  for (const [scene, stream] of [['failing', false], ['limited', true], ['broken', false]]) {
    const { data, response } = await ask(`${scene}-then-well-${SUITE}`, mark, { stream }).withResponse();
    same(['attempts', 'winner'].map((name) => response.headers.get(`x-tokrate-${name}`)), ['3', 'responses-plain']);
    const pieces = stream ? (await all(data)).map((chunk) => chunk.choices[0].delta.content) : [data.choices[0].message.content];
    same(pieces.join(''), SAID.text);
  }
  const order = ['chat', 'anthropic', 'responses'];
  same((await mark.requests()).map((request) => request.dialect), [...order, ...order, ...order]);
});

check('a race of lanes of three dialects: one whole answer, whoever wins', async (mark) => {
  const { data, response } = await ask('race', mark).withResponse();
  same([response.headers.get('x-tokrate-attempts'), data.choices[0].message.content], ['3', SAID.text]);
  same(await completions.stream({ model: 'race', messages: asked(mark) }).finalContent(), SAID.text);
});

check('long answers of every dialect, piece by piece and whole', async (mark) => {
  for (const wire of WIRES) {
    const chunks = await all(ask(`${wire}-long`, mark, { stream: true }));
    same(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), LONG_TEXT);
    assert.ok(chunks.length > SAID.long, `${chunks.length} chunks`);
    same((await ask(`${wire}-long`, mark)).choices[0].message.content, LONG_TEXT);
  }
});

check('a key that used up its requests a minute: RateLimitError with Retry-After', async (mark) => {
  const small = client.withOptions({ apiKey: SMALL_KEY });
  const what = { model: 'chat-plain', messages: asked(mark) };
  same((await small.chat.completions.create(what)).choices[0].message.content, SAID.text);
  const error = await raises(OpenAI.RateLimitError, small.chat.completions.create(what));
  assert.ok(Number(error.headers.get('retry-after')) > 0);
  same([error.type, (await mark.requests()).length], ['rate_limit_error', 1]);
});

check('what is not offered is a NotFoundError', async () => {
  const { files, fineTuning, moderations, responses } = client;
  holds((await raises(OpenAI.NotFoundError, fineTuning.jobs.list())).message, 'not found');
  // Files of other keys, and which of many lanes is meant.
  holds((await raises(OpenAI.PermissionDeniedError, files.list())).message, 'what other keys have made');
  holds((await raises(OpenAI.BadRequestError, moderations.create({ input: 'x' }))).message, 'x-tokrate-model');
  // Only the lane that began a response in the background has it.
  holds((await raises(OpenAI.NotFoundError, responses.retrieve('r'))).message, 'is not known here');
});

check('twelve streams at once, each its own', async (mark) => {
  const one = async (number) => {
    const stream = completions.stream({ model: `${WIRES[number % 3]}-plain`, messages: asked(mark) });
    return stream.finalContent();
  };
  same(await Promise.all([...Array(12).keys()].map(one)), Array(12).fill(SAID.text));
});

require('./realtime')();
require('./responses')(client);
run(`openai node ${VERSION}`);
