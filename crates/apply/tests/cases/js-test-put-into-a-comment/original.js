test('reads the cache', async t => {
	const cache = new Map();
	await client('https://example.com/one', {cache});
	t.is(cache.size, 1);
});

test('works with http2', async t => {
	const cache = new Map();
	await client('https://example.com/anything', {cache});
	t.is(cache.size, 2);
});

test('writes the cache', async t => {
	t.pass();
});
