"""A webhook receiver: appends the body of each request to a file, a line for each."""

import http.server
import sys


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers each POST with 200."""

    def do_POST(self) -> None:
        """Keep the body."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open(sys.argv[2], "ab") as kept:
            kept.write(body.replace(b"\n", b" ") + b"\n")
        self.send_response(200)
        self.end_headers()


http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Receiver).serve_forever()
