class Request:
    def build(self):
        self.response = r
        self.response.request = self
        self.response.cookies.update(self.cookies)
        # print cookies
        # print self.response.cookies


    def send(self):
        return self.adapter.send(self)
