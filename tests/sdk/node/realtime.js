// OpenAI's SDK for Node, and `ws` alone, against the gateway: sessions of the realtime API. Part of the suite of `openai.js`.
const { OpenAIRealtimeWS } = require('openai/realtime/ws');
const { WebSocket } = require('ws');
const { GATEWAY, KEY, assert, check, same } = require('./harness');

const ITEM = { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'How fast are you?' }] };

module.exports = (client) => {
  check('a realtime session: a response of text, with its counts', async () => {
    const session = new OpenAIRealtimeWS({ model: 'sim' }, client);
    let text = '';
    const response = await new Promise((resolve, reject) => {
      session.on('error', reject);
      session.on('session.created', () => {
        session.send({ type: 'conversation.item.create', item: ITEM });
        session.send({ type: 'response.create', response: { max_output_tokens: 24 } });
      });
      session.on('response.output_text.delta', ({ delta }) => {
        text += delta;
      });
      session.on('response.done', (event) => resolve(event.response));
    });
    session.close();
    same([response.status, response.output[0].content[0].text], ['completed', text]);
    same(response.usage.output_tokens, 24);
    assert.ok(text.length > 0);
  });

  check('a realtime session by ws alone: ping, and the code of the close', async () => {
    const protocols = ['realtime', `openai-insecure-api-key.${KEY}`];
    const socket = new WebSocket(`${GATEWAY.replace('http:', 'ws:')}/v1/realtime?model=sim`, protocols);
    const heard = await new Promise((resolve, reject) => {
      const events = [];
      socket.on('error', reject);
      socket.on('message', (data) => {
        events.push(JSON.parse(data).type);
        socket.ping();
      });
      socket.on('pong', () => socket.close(3001));
      socket.on('close', (code) => resolve([...events, code]));
    });
    same(heard, ['session.created', 3001]);
    same(socket.protocol, 'realtime');
  });
};
