// Sends requests through OpenAI's published SDK for Node; prints what it makes of the answers as JSON.
const fs = require('fs');
const { OpenAI } = require('openai');

const { url, requests } = JSON.parse(fs.readFileSync(0, 'utf8'));
const client = new OpenAI({ apiKey: 'none', baseURL: `${url}/v1`, maxRetries: 0 });

const answer = async (request) => {
  try {
    const { data, response } = await client.chat.completions.create(request).withResponse();
    const apply = response.headers.get('x-tokrate-apply');
    if (!request.stream) {
      const choice = data.choices[0];
      return { apply, text: choice.message.content, finish: choice.finish_reason, usage: data.usage, model: data.model };
    }
    let text = '', finish, usage, chunks = 0;
    for await (const chunk of data) {
      chunks += 1;
      text += chunk.choices[0]?.delta?.content ?? '';
      finish = chunk.choices[0]?.finish_reason ?? finish;
      usage = chunk.usage ?? usage;
    }
    return { apply, text, finish, usage, chunks };
  } catch (error) {
    return { status: error.status, code: error.code, type: error.type, message: error.error?.message };
  }
};

(async () => {
  const answers = [];
  for (const request of requests) answers.push(await answer(request));
  const models = (await client.models.list()).data.map((model) => model.id);
  process.stdout.write(JSON.stringify({ answers, models }));
})();
