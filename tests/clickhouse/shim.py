"""ClickHouse's HTTP interface, as much of it as tokrate uses, in front of its engine in this process (chdb). For tests only.

It listens on a free port of loopback, which it prints. Invariant: a statement reaches the engine as it came; what the engine says
comes back as a server says it. `/shim/lose` makes the answer of the next statement get lost after it was carried out.
"""

import argparse
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qsl, urlsplit

from chdb import session


class Shim(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine = None
    password = ""
    database = None
    loses_next = False

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        url = urlsplit(self.path)
        if url.path == "/shim/lose":
            Shim.loses_next = True
            return self.answer(200, b"")
        if self.headers.get("X-ClickHouse-Key", "") != Shim.password:
            return self.answer(403, b"Code: 516. DB::Exception: Authentication failed: password is incorrect. (AUTHENTICATION_FAILED)")
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        statement = f"{query['query']} {body}" if "query" in query else body
        parameters = {name.removeprefix("param_"): value for name, value in query.items() if name.startswith("param_")}
        try:
            if query["database"] != Shim.database:
                Shim.engine.query(f"CREATE DATABASE IF NOT EXISTS {query['database']}")
                Shim.engine.query(f"USE {query['database']}")
                Shim.database = query["database"]
            answer = Shim.engine.query(statement, "TabSeparated", params=parameters).bytes()
        except Exception as error:
            return self.answer(500, str(error).encode())
        if Shim.loses_next:
            Shim.loses_next = False
            self.close_connection = True
            return None
        return self.answer(200, bytes(answer or b""))

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--password", default="")
    arguments = parser.parse_args()
    Shim.engine = session.Session(arguments.data)
    Shim.password = arguments.password
    server = HTTPServer(("127.0.0.1", arguments.port), Shim)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
