// Sends edits through Morph's published SDK; prints what it makes of the answers as JSON.
const fs = require('fs');
const { applyEdit, executeEditFile } = require('@morphllm/morphsdk/tools/fastapply');

const { url, edits, file } = JSON.parse(fs.readFileSync(0, 'utf8'));
const config = { morphApiKey: 'none', morphApiUrl: url, retryConfig: { maxRetries: 0 } };

(async () => {
  const results = [];
  for (const { config: further, ...edit } of edits) {
    results.push(await applyEdit(edit, { ...config, ...further }));
  }
  const edited = await executeEditFile(file.input, { ...config, baseDir: file.baseDir });
  process.stdout.write(JSON.stringify({ results, edited }));
})();
