"""Stand-ins for what a pipeline talks to besides the gate: identity tokens, and the comments of GitHub and GitLab."""

import base64
import contextlib
import http.server
import json
import re
import secrets
import threading
import urllib.parse

ISSUER = "token.actions.githubusercontent.com"
BOT, STRANGER = "github-actions[bot]", "somebody"
LARGEST = 65_536


def identity_token(subject, issuer=ISSUER, audience="sts.amazonaws.com"):
    """An identity token. The emulator reads its claims and, other than AWS, does not look at its signature."""
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
    claims = {"iss": f"https://{issuer}", "aud": audience, "sub": subject, "exp": 4_000_000_000}
    return f"{part({'alg': 'RS256', 'typ': 'JWT'})}.{part(claims)}.{secrets.token_urlsafe(32)}"


class Forge:
    """Both forges at once: who comments where, by which token. What it is asked without the right token it refuses."""

    def __init__(self, subject):
        self.subject, self.comments, self.notes, self.calls = subject, [], [], []
        self.request_token, self.comment_token = secrets.token_hex(20), secrets.token_hex(20)
        self._next, self.audiences = 100, []
        forge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                url = urllib.parse.urlsplit(self.path)
                status, answer = forge.answer(self.command, url.path, dict(urllib.parse.parse_qsl(url.query)), self.headers, json.loads(body or b"null"))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_PUT = _serve

            def log_message(self, *_):
                """Nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def write(self, where, author, body):
        """Somebody's comment that is there already."""
        self._next += 1
        where.append({"id": self._next, "body": body, "user": {"login": author}, "author": {"id": 7 if author == BOT else 8}})

    def answer(self, method, path, query, headers, body):
        """The answer to a request, as (status, value)."""
        self.calls.append((method, path))
        if path == "/identity":
            if headers.get("Authorization") != f"Bearer {self.request_token}":
                return 401, {}
            self.audiences.append(query.get("audience"))
            return 200, {"value": identity_token(self.subject)}
        if f"Bearer {self.comment_token}" != headers.get("Authorization") and headers.get("PRIVATE-TOKEN") != self.comment_token:
            return 403, {"message": "Resource not accessible by integration"}
        if path == "/user":
            return 200, {"id": 7}
        where = self.notes if "/notes" in path else self.comments
        if body is not None and not 0 < len(body["body"].encode("utf-16-le")) // 2 <= LARGEST:
            return 422, {"message": "body is too long (maximum is 65536 characters)"}
        if re.fullmatch(r"/repos/acme/shop/issues/12/comments|/projects/34/merge_requests/12/notes", path):
            if method == "POST":
                self.write(where, BOT, body["body"])
                return 201, where[-1]
            if method == "GET":
                size, page = int(query["per_page"]), int(query["page"])
                return 200, where[(page - 1) * size:page * size]
        if found := re.fullmatch(r"/repos/acme/shop/issues/comments/(\d+)|/projects/34/merge_requests/12/notes/(\d+)", path):
            with contextlib.suppress(StopIteration):
                comment = next(each for each in where if each["id"] == int(found[1] or found[2]))
                if method == ("PATCH" if where is self.comments else "PUT"):
                    comment["body"] = body["body"]
                    return 200, comment
        return 404, {"message": "Not Found"}
