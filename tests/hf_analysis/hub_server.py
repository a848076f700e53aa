"""A hub of one's own: serves folders as the Hugging Face hub serves repositories, with faults on request.

python -m tests.hf_analysis.hub_server ROOT LOG [PORT]    on 127.0.0.1; prints its port, then serves until killed

ROOT/models/OWNER/NAME/REVISION/...      the files of a model at a branch or tag; ROOT/datasets likewise
ROOT/models/OWNER/NAME/fault.json        optional, what is wrong with the repository:
    {"status": 401, "code": "GatedRepo", "token": "hf_x"}    every request is answered so, unless it has the token
    {"cut": "model.safetensors", "times": 2}                 the file ends before its end, so many times

Each request is a line of LOG: method, status, path and, if only a part was asked for, from which byte. The answers
have what huggingface_hub reads: commit, ETag, size, error code; weights are elsewhere, behind a redirect, as there.
"""

import hashlib
import json
import sys
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

ELSEWHERE = "/elsewhere"
"""Where a redirect leads to that stands for the hub's store of large files."""


class Refusal(Exception):
    def __init__(self, status: int, code: str = "", commit: str = "") -> None:
        self.status, self.code, self.commit = status, code, commit


@dataclass(frozen=True)
class Repository:
    kind: str  # models or datasets
    name: str
    folder: Path

    @property
    def fault(self) -> dict[str, Any]:
        file = self.folder / "fault.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def at(self, revision: str) -> tuple[Path, str]:
        """The files at a branch, a tag or a commit, and the commit."""
        for place in sorted(path for path in self.folder.iterdir() if path.is_dir()):
            states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files(place)]
            commit = hashlib.sha1(repr(states).encode()).hexdigest()
            if revision in (place.name, commit):
                return place, commit
        raise Refusal(404, "RevisionNotFound")


def files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.is_file())


def entry(path: Path, place: Path) -> dict[str, Any]:
    """What the hub says about a file or folder."""
    kind = "file" if path.is_file() else "directory"
    return {"type": kind, "path": str(path.relative_to(place)), "size": path.stat().st_size, "oid": oid(path)}


def oid(path: Path) -> str:
    state = path.stat()
    return hashlib.sha1(f"{path} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    root: Path
    log: Path
    cuts: ClassVar[Counter] = Counter()

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)  # else it would be taken for the next request
        try:
            self._answer(unquote(urlsplit(self.path).path), json.loads(body) if body else {})
        except Refusal as refusal:
            headers = {"X-Error-Code": refusal.code, "X-Repo-Commit": refusal.commit}
            self._send(refusal.status, json.dumps({"error": refusal.code}).encode(), headers)

    do_HEAD = do_POST = do_GET

    def _answer(self, path: str, asked: dict[str, Any]) -> None:
        if path.startswith("/api/"):
            kind, owner, name, *rest = [*path.removeprefix("/api/").split("/"), "", ""]
            self._describe(self._repository(kind, f"{owner}/{name}"), [word for word in rest if word], asked)
            return
        elsewhere, path = path.startswith(ELSEWHERE), path.removeprefix(ELSEWHERE).strip("/")
        kind = "datasets" if path.startswith("datasets/") else "models"
        name, _, where = path.removeprefix("datasets/").partition("/resolve/")
        revision, _, file = where.partition("/")
        self._resolve(self._repository(kind, name), revision, file, elsewhere)

    def _repository(self, kind: str, name: str) -> Repository:
        folder = self.root / kind / name
        if not all(name.split("/")) or name.count("/") != 1 or not folder.is_dir():
            raise Refusal(404, "RepoNotFound")
        found = Repository(kind, name, folder)
        allowed = self.headers.get("Authorization") == f"Bearer {found.fault.get('token')}"
        if "status" in found.fault and not allowed:
            raise Refusal(found.fault["status"], found.fault.get("code", ""))
        return found

    def _describe(self, repository: Repository, words: list[str], asked: dict[str, Any]) -> None:
        """The answers of the hub's API: a repository, a folder of it, or some paths."""
        what, revision, *inner = [*(words or ["revision"]), "main"] if len(words) < 2 else words
        place, commit = repository.at(revision)
        if what == "revision":
            siblings = [{"rfilename": str(file.relative_to(place))} for file in files(place)]
            self._send_json({"id": repository.name, "sha": commit, "siblings": siblings, "tags": []})
        elif what == "tree":
            folder = place.joinpath(*inner)
            if not folder.is_dir():
                raise Refusal(404, "EntryNotFound", commit)
            recursive = "recursive=true" in self.path.lower()
            found = sorted(folder.rglob("*") if recursive else folder.iterdir())
            self._send_json([entry(path, place) for path in found])
        elif what == "paths-info":
            found = [place / path for path in asked["paths"]]
            self._send_json([entry(path, place) for path in found if path.exists()])
        else:
            raise Refusal(404)

    def _resolve(self, repository: Repository, revision: str, name: str, elsewhere: bool) -> None:
        """A file, or where it is."""
        place, commit = repository.at(revision)
        file = place / name
        if not file.is_file():
            raise Refusal(404, "EntryNotFound", commit)
        headers = {"X-Repo-Commit": commit, "ETag": f'"{oid(file)}"', "Accept-Ranges": "bytes"}
        if file.suffix == ".safetensors" and not elsewhere:
            linked = {"X-Linked-ETag": headers["ETag"], "X-Linked-Size": str(file.stat().st_size)}
            self._send(302, b"", {**headers, **linked, "Location": f"{ELSEWHERE}{self.path}"})
            return
        data = file.read_bytes()
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        if self.headers.get("Range"):
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        end = len(data)
        fault = repository.fault
        if self.command == "GET" and fault.get("cut") == name and self.cuts[name] < fault["times"]:
            self.cuts[name] += 1
            end = max(start, len(data) * 7 // 8)
        self._send(206 if self.headers.get("Range") else 200, data[start:], headers, data[start:end])

    def _send_json(self, value: Any) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str], sent: bytes | None = None) -> None:
        """`sent`, if given, is what is really sent before the line is cut."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        part = f" from {self.headers['Range']}" if self.headers.get("Range") else ""
        with self.log.open("a") as log:
            log.write(f"{self.command} {status} {self.path}{part}\n")
        if self.command != "HEAD":
            self.wfile.write(body if sent is None else sent)
            self.close_connection = sent is not None and len(sent) < len(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are in the log; standard error is for what goes wrong."""


if __name__ == "__main__":
    Hub.root, Hub.log = Path(sys.argv[1]), Path(sys.argv[2])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3]) if len(sys.argv) > 3 else 0), Hub)
    print(server.server_address[1], flush=True)
    server.serve_forever()
