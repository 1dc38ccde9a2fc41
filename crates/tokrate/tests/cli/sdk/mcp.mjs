// Drives `tokrate mcp` through the protocol's own SDK; prints what it makes of the answers as JSON.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const { program, cwd, sdk, calls } = JSON.parse(fs.readFileSync(0, 'utf8'));
const load = (name) => import(pathToFileURL(createRequire(`${sdk}/`).resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');

const client = new Client({ name: 'test', version: '1.0.0' });
await client.connect(new StdioClientTransport({ command: program, args: ['mcp'], cwd }));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const results = [];
for (const args of calls) {
  const { isError, content } = await client.callTool({ name: 'edit_file', arguments: args });
  results.push({ isError, text: content[0].text });
}
await client.ping();
const server = client.getServerVersion().name;
await client.close();
process.stdout.write(JSON.stringify({ tools, results, server }));
