class Store:
    def __init__(self, url, sandbox=False):
        self.url = url
        self.sandbox = sandbox
        self._outer = None

    async def open(self):
        assert not self.is_open, "open already"
        await self._pool.start()
        self.is_open = True

        if self.sandbox:
            self._outer = self._pool.begin()

    async def close(self):
        await self._pool.stop()
