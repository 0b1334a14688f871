"""Container credentials: each ECS task gets a session of its own task role from an endpoint on the loopback interface.

AWS: a container asks a link-local address for credentials; they are a session of the task role, or of the role that RunTask's
override names, its session name is the task id, and they are renewed before they expire. The emulator hands out the account's own.
"""

import hmac
import http.server
import json
import secrets
import threading
import uuid

from ministack.core.responses import request_scope

from . import roles


class Endpoint:
    """Serves credentials under unguessable paths, each guarded by a token of its own."""

    def __init__(self):
        self._grants = {}
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                endpoint._answer(self)

            def log_message(self, *_):
                """Nothing: the path is a secret."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True, name="task-credentials").start()

    def grant(self, role_arn, task_id, account, region):
        """Opens an address for a task; returns the environment variables that lead an SDK there."""
        path, token = f"/v2/credentials/{uuid.uuid4()}", secrets.token_urlsafe(32)
        self._grants[path] = (token, role_arn, task_id, account, region)
        return {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{self._server.server_address[1]}{path}",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": token,
        }

    def revoke(self, task_id):
        """Closes the addresses of a task that has ended."""
        for path in [path for path, grant in self._grants.items() if grant[2] == task_id]:
            self._grants.pop(path, None)

    def _answer(self, request):
        grant = self._grants.get(request.path)
        sent = request.headers.get("Authorization", "")
        if grant is None or not hmac.compare_digest(sent.encode(), grant[0].encode()):
            status, answer = 404 if grant is None else 403, {"code": "InvalidIdInRequest", "message": "no credentials here"}
        else:
            _, role_arn, task_id, account, region = grant
            try:
                with request_scope(account, region):
                    status, answer = 200, roles.session(role_arn, task_id)
            except roles.AccessDenied as error:
                status, answer = 400, {"code": "AccessDenied", "message": str(error)}
        body = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
