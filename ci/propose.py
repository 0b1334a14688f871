"""Proposes a folder from a pipeline, and shows the projection as a comment on the pull or merge request. Python's own library alone.

Everything comes by environment, so that no secret is an argument of a program and nothing of a request is read by a shell:

    PLANGATE_API, PLANGATE_WORKSPACE, PLANGATE_FOLDER   the gate's address, the workspace, the configuration
    PLANGATE_ROLE, AWS_REGION       the IAM role that trusts the pipeline's identity token, and the gate's region
    PLANGATE_MODE                   plan-only (default): only look; applicable: the run waits for somebody to decide
    PLANGATE_ON_BEHALF_OF           the person behind the change, as the gate knows them; a bot may name one
    PLANGATE_CLI                    the program; `plangate` otherwise
    PLANGATE_COMMENT                true (default) or false
    PLANGATE_COMMENT_TOKEN          who may comment
    PLANGATE_COMMENT_AUTHOR         GitHub: by whom an earlier comment must be to be changed; github-actions[bot] otherwise
    PLANGATE_ID_TOKEN               GitLab: the identity token; GitHub's is fetched

On GitHub the outputs are `run` and `status`. Exit codes are plangate's, except that a run which waits for approval is a success.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

AUDIENCE = "sts.amazonaws.com"
WAITS = 8
FOLLOWED = {0, 4, 5, 6, 7, WAITS}
LARGEST = 16 << 20
PAGES, PAGE = 50, 100


class Failure(Exception):
    """Something that keeps the job from its end; the message says what to do."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a token is for the address that it was given for."""

    def redirect_request(self, *_):
        return None


_open = urllib.request.build_opener(_Stay).open


def ask(method, url, headers, body=None, attempts=1):
    """One HTTP request; gives the JSON of the answer. What only reads may be tried again."""
    if urllib.parse.urlsplit(url).scheme not in ("https", "http"):
        raise Failure(f"{url.partition('?')[0]} is no address")
    data = None if body is None else json.dumps(body).encode()
    sent = {"Accept": "application/json", "User-Agent": "plangate", "Content-Type": "application/json", **headers}
    place = f"{method} {url.partition('?')[0]}"
    for attempt in range(1, attempts + 1):
        try:
            with _open(urllib.request.Request(url, data, sent, method=method), timeout=30) as answer:
                return json.loads(answer.read(LARGEST) or b"null")
        except urllib.error.HTTPError as error:
            said = f"{place}: status {error.code}"
            if error.code < 500 and error.code != 429:
                raise Failure(said) from None
        except (OSError, ValueError) as error:
            said = f"{place}: {type(error).__name__}"
        if attempt < attempts:
            time.sleep(2 ** attempt)
    raise Failure(said)


def need(name, hint=""):
    """A variable that has to be there."""
    if value := os.environ.get(name):
        return value
    raise Failure(f"{name} is not set{hint}")


def standing(comments, headers, marker, ours):
    """The number of the comment that was put up before; None if there is none. Anybody can write the marker: only one of `ours` counts."""
    for page in range(1, PAGES + 1):
        found = ask("GET", f"{comments}?per_page={PAGE}&page={page}", headers, attempts=4)
        for each in found:
            if each["body"].startswith(marker) and ours(each):
                return int(each["id"])
        if len(found) < PAGE:
            break
    return None


class GitHub:
    """A job of GitHub Actions."""

    def __init__(self):
        self.token, self.api = os.environ.get("PLANGATE_COMMENT_TOKEN", ""), os.environ.get("GITHUB_API_URL", "https://api.github.com")
        self.author = os.environ.get("PLANGATE_COMMENT_AUTHOR") or "github-actions[bot]"
        self.repository = need("GITHUB_REPOSITORY")
        event = json.loads(pathlib.Path(need("GITHUB_EVENT_PATH")).read_text())
        number = (event.get("pull_request") or {}).get("number")
        self.request = number if isinstance(number, int) else None

    def identity(self):
        """The job's identity token."""
        hint = ": give the job `permissions: id-token: write`"
        url, token = need("ACTIONS_ID_TOKEN_REQUEST_URL", hint), need("ACTIONS_ID_TOKEN_REQUEST_TOKEN", hint)
        joint = "&" if "?" in url else "?"
        return ask("GET", f"{url}{joint}audience={AUDIENCE}", {"Authorization": f"Bearer {token}"}, attempts=4)["value"]

    def comment(self, text, marker):
        """Puts the comment up, or in the place of the one before."""
        headers = {"Authorization": f"Bearer {self.token}", "X-GitHub-Api-Version": "2022-11-28"}
        comments = f"{self.api}/repos/{self.repository}/issues/{self.request}/comments"
        before = standing(comments, headers, marker, lambda each: (each.get("user") or {}).get("login") == self.author)
        if before is None:
            ask("POST", comments, headers, {"body": text})
        else:
            ask("PATCH", f"{self.api}/repos/{self.repository}/issues/comments/{before}", headers, {"body": text}, attempts=4)

    def tell(self, run, status, text):
        """The job's outputs and its summary."""
        with open(need("GITHUB_OUTPUT"), "a") as outputs:
            outputs.write(f"run={run}\nstatus={status}\n")
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            with open(summary, "a") as lines:
                lines.write(text)


class GitLab:
    """A job of GitLab CI."""

    def __init__(self):
        self.token, self.api, self.project = os.environ.get("PLANGATE_COMMENT_TOKEN", ""), need("CI_API_V4_URL"), need("CI_PROJECT_ID")
        number = os.environ.get("CI_MERGE_REQUEST_IID", "")
        self.request = int(number) if number.isdigit() else None

    def identity(self):
        """The job's identity token."""
        return need("PLANGATE_ID_TOKEN", f": give the job `id_tokens: PLANGATE_ID_TOKEN: aud: {AUDIENCE}`")

    def comment(self, text, marker):
        """Puts the note up, or in the place of the one before."""
        headers = {"PRIVATE-TOKEN": self.token}
        me = ask("GET", f"{self.api}/user", headers, attempts=4)["id"]
        notes = f"{self.api}/projects/{urllib.parse.quote(self.project, safe='')}/merge_requests/{self.request}/notes"
        before = standing(notes, headers, marker, lambda each: (each.get("author") or {}).get("id") == me)
        if before is None:
            ask("POST", notes, headers, {"body": text})
        else:
            ask("PUT", f"{notes}/{before}", headers, {"body": text}, attempts=4)

    def tell(self, run, status, text):
        """The variables of later jobs, as a dotenv report."""
        pathlib.Path("plangate.env").write_text(f"PLANGATE_RUN={run}\nPLANGATE_STATUS={status}\n")


def environment(token_file):
    """What the program gets: its own settings and the identity, and nothing that it does not need, such as the comment's token."""
    kept = ("PATH", "HOME", "TMPDIR", "AWS_REGION", "AWS_ENDPOINT_URL", "PLANGATE_API", "PLANGATE_ENGINE", "SSL_CERT_FILE", "HTTPS_PROXY", "NO_PROXY")
    session = re.sub(r"[^\w+=,.@-]", "-", os.environ.get("GITHUB_RUN_ID") or os.environ.get("CI_PIPELINE_ID") or "pipeline", flags=re.ASCII)
    return {**{name: os.environ[name] for name in kept if os.environ.get(name)}, "NO_COLOR": "1", "AWS_WEB_IDENTITY_TOKEN_FILE": token_file,
            "AWS_ROLE_ARN": need("PLANGATE_ROLE"), "AWS_ROLE_SESSION_NAME": f"plangate-{session}"[:64]}


def plangate(arguments, variables):
    """Runs the program; what it says beside its answer goes into the job's log. Gives (exit code, answer)."""
    program = os.environ.get("PLANGATE_CLI") or "plangate"
    try:
        done = subprocess.run([program, *arguments], env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{program}: {error.strerror}; install it in an earlier step, or name it") from None
    return done.returncode, done.stdout


def propose(job):
    """Proposes, follows, comments; gives the exit code."""
    mode = os.environ.get("PLANGATE_MODE") or "plan-only"
    if mode not in ("plan-only", "applicable"):
        raise Failure(f"PLANGATE_MODE is {mode!r}, and can be plan-only or applicable")
    folder, workspace = need("PLANGATE_FOLDER"), need("PLANGATE_WORKSPACE")
    need("PLANGATE_API")
    with tempfile.TemporaryDirectory(prefix="plangate-") as place:
        token = pathlib.Path(place, "identity")
        token.touch(mode=0o600)
        token.write_text(job.identity())
        variables = environment(str(token))
        more = ["--plan-only"] if mode == "plan-only" else []
        if person := os.environ.get("PLANGATE_ON_BEHALF_OF"):
            more.append(f"--on-behalf-of={person}")
        # With `=` and `--`, nothing that a pull request can choose is taken for an option.
        code, answer = plangate(["--json", "propose", f"--workspace={workspace}", "--origin=ci", "--watch", *more, "--", folder], variables)
        if code not in FOLLOWED:
            return code
        run = json.loads(answer)["run"]
        identity, status = run["id"], run["status"]
        if not re.fullmatch(r"run-[0-9a-z]{26}", identity) or not re.fullmatch(r"[a-z_]+", status):
            raise Failure("the program's answer names no run")
        shown, text = plangate(["show", "--markdown", identity], variables)
    if shown != 0:
        raise Failure(f"{identity} is {status}, and cannot be shown")
    job.tell(identity, status, text)
    print(f"{identity} is {status}", flush=True)
    if job.request is not None and os.environ.get("PLANGATE_COMMENT", "true") == "true":
        if not job.token:
            raise Failure("PLANGATE_COMMENT_TOKEN is not set; without a comment: PLANGATE_COMMENT=false")
        job.comment(text, text.partition("\n")[0])
    return 0 if code == WAITS else code


def main():
    """Ends with the exit code of the job."""
    try:
        sys.exit(propose(GitLab() if os.environ.get("GITLAB_CI") else GitHub()))
    except Failure as failure:
        sys.exit(f"plangate: {failure}")
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        sys.exit(f"plangate: an answer is not what it should be ({type(error).__name__})")


if __name__ == "__main__":
    main()
