// `ws` against the gateway: sessions of the realtime API. Part of the suite of `openai.js`. OpenAI's own SDK for Node opens sessions over TLS
// only, whatever its base URL says.
const { WebSocket } = require('ws');
const { GATEWAY, KEY, check, same } = require('./harness');

module.exports = () => {
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
