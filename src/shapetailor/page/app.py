"""The application: pages, pictures, tiles and jobs over HTTP, and the socket."""

from __future__ import annotations

import asyncio
import mimetypes
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles

from .downloads import Downloads, as_json
from .frames import gray_png, labels_png
from .hub import Hub
from .jobs import Jobs
from .live import Engine
from .refusal import Refusal, words
from .talk import Talk
from .uploads import receive_json, receive_picture
from .views import TILE, Views
from .workspace import Workspace

STATIC = Path(__file__).parent / "static"
LASTING = {"Cache-Control": "private, max-age=3600"}
#: What is answered in words.
REFUSED = (Refusal, HTTPException, ClientDisconnect, ValueError, OSError, MemoryError)
mimetypes.add_type("text/javascript", ".js")


class Page:
    """Everything that serves one workspace."""

    def __init__(self, workspace: Workspace, warm: bool = False) -> None:
        self.workspace, self.views, self.hub = workspace, Views(), Hub()
        self.engine = Engine(workspace, self.views, self.hub.tell, warm)
        self.talk = Talk(workspace, self.views, self.engine, self.hub)
        self.downloads = Downloads(workspace, self.engine)
        self.jobs = Jobs(self._news)
        self.app = Starlette(
            routes=self._routes(),
            lifespan=self._life,
            exception_handlers={Exception: _failed, **dict.fromkeys(REFUSED, _refused)},
        )

    def _routes(self) -> list[Route | Mount | WebSocketRoute]:
        one = "/api/pictures/{name}"
        return [
            Route("/", self.index),
            Mount("/static", _Static(directory=STATIC)),
            Route("/api/project", self.project),
            Route("/api/classes", self.classes, methods=["PUT"]),
            Route("/api/pictures", self.upload, methods=["POST"]),
            Route(one, self.picture),
            Route(f"{one}/thumb.jpg", self.thumb),
            Route(f"{one}/tiles/{{level:int}}/{{column:int}}_{{row:int}}.jpg", self.tile),
            Route(f"{one}/labels.png", self.labels),
            Route(f"{one}/uncertainty.png", self.uncertainty),
            Route(f"{one}/table", self.table),
            Route(f"{one}/metrics", self.metrics),
            Route(f"{one}/download/{{kind}}", self.download),
            Route("/api/download/{kind}", self.download_all),
            Route("/api/jobs", self.start_job, methods=["POST"]),
            Route("/api/jobs", self.cancel_job, methods=["DELETE"]),
            WebSocketRoute("/api/live", self.talk.serve),
        ]

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        self.hub.loop = asyncio.get_running_loop()
        yield
        await self.jobs.end()
        await run_in_threadpool(self.engine.end)
        self.workspace.close()

    def _news(self, job: dict[str, Any]) -> None:
        """Tell all tabs of a job, and that results are new when it has ended."""
        self.hub.tell(None, {"type": "job", "job": dict(job)})
        if job["state"] != "running":
            self.hub.tell(None, {"type": "project"})

    async def index(self, request: Request) -> Response:
        """The page itself."""
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    async def project(self, request: Request | None = None) -> Response:
        """The project with all its pictures."""
        found = await run_in_threadpool(self.workspace.describe, self.jobs.failed)
        return JSONResponse(found | {"job": self.jobs.job})

    async def classes(self, request: Request) -> Response:
        """Replace the classes."""
        given = await receive_json(request)
        await run_in_threadpool(self.workspace.set_classes, given.get("classes"))
        self.hub.tell(None, {"type": "project"})
        return await self.project()

    async def upload(self, request: Request) -> Response:
        """Take a picture."""
        path = await receive_picture(request, self.workspace)
        self.hub.tell(None, {"type": "project"})
        return JSONResponse({"name": path.stem})

    async def picture(self, request: Request) -> Response:
        """One picture: its size, levels, strokes."""
        return JSONResponse(await run_in_threadpool(self._described, request.path_params["name"]))

    def _described(self, name: str) -> dict[str, Any]:
        view, history = self.views.get(self.workspace.picture(name)), self.workspace.history(name)
        width, height = view.size
        return {
            "name": name,
            "version": self.workspace.version(name),
            "width": width,
            "height": height,
            "channels": view.channels,
            "dtype": str(view.levels[0].dtype),
            "levels": len(view.levels),
            "tile": TILE,
            "range": list(view.range),
            "limits": list(view.limits),
            "strokes": [stroke.to_dict() for stroke in history.strokes],
            "revision": history.revision,
            "depth": history.depth,
            "editable": self.workspace.marks_kind(name) != "map",
            "truth": self.workspace.truth(name) is not None,
            "applied": self.workspace.applied(name) is not None,
            "applied_newer": self.workspace.is_applied_newer(name),
        }

    async def thumb(self, request: Request) -> Response:
        """A small picture."""
        path = self.workspace.picture(request.path_params["name"])
        return Response(await run_in_threadpool(self.views.thumb, path), media_type="image/jpeg", headers=LASTING)

    async def tile(self, request: Request) -> Response:
        """A part of a level."""
        path, where = self.workspace.picture(request.path_params["name"]), request.path_params
        shown = _range(request)
        cut = await run_in_threadpool(
            lambda: self.views.get(path).tile(where["level"], where["column"], where["row"], shown)
        )
        return Response(cut, media_type="image/jpeg", headers=LASTING)

    async def labels(self, request: Request) -> Response:
        """The label map, for the eye."""

        def made() -> Response:
            found = self.downloads.shown(request.path_params["name"], _source(request))
            colours = {each.value: each.rgb for each in self.workspace.classes}
            return _png(labels_png(found.values, colours), found.scale)

        return await run_in_threadpool(made)

    async def uncertainty(self, request: Request) -> Response:
        """Where it is unsure, for the eye."""

        def made() -> Response:
            found = self.downloads.unsure(request.path_params["name"], _source(request))
            return _png(gray_png(found.values), found.scale)

        return await run_in_threadpool(made)

    async def table(self, request: Request) -> Response:
        """The picture's rows of the table."""
        rows = await run_in_threadpool(self.downloads.rows, request.path_params["name"], _source(request))
        return JSONResponse({"rows": as_json(rows)})

    async def metrics(self, request: Request) -> Response:
        """The labels against the truth."""
        return JSONResponse(
            await run_in_threadpool(self.downloads.metrics, request.path_params["name"], _source(request))
        )

    async def download(self, request: Request) -> Response:
        """One picture's file of some kind."""
        name, kind = request.path_params["name"], request.path_params["kind"]
        return await _attachment(partial(self.downloads.write, name, kind, _source(request)))

    async def download_all(self, request: Request) -> Response:
        """A file of the whole project."""
        return await _attachment(partial(self.downloads.whole, request.path_params["kind"]))

    async def start_job(self, request: Request) -> Response:
        """Teach or apply."""
        given = await receive_json(request)
        kind, pictures = str(given.get("kind")), self.workspace.pictures()
        marked = [name for name in pictures if self.workspace.marks_kind(name) != "none"]
        if kind == "teach":
            await run_in_threadpool(self._check_taught, marked)
        if kind == "apply" and self.workspace.model() is None:
            raise Refusal(409, "There is no model yet: teach first, then apply.")
        total = len(marked if kind == "teach" else pictures)
        await self.jobs.start(self.workspace.folder, kind, total, given.get("fine_tune") is True)
        return JSONResponse(self.jobs.job, 202)

    def _check_taught(self, marked: list[str]) -> None:
        """Say at once what teaching would say after a while."""
        if not marked:
            raise Refusal(409, "Nothing is marked yet: draw two classes in a picture, then teach.")
        values = set().union(*map(self.workspace.marked_values, marked))
        used = [each.name for each in self.workspace.classes if each.value in values]
        if len(used) < 2:
            raise Refusal(409, f"Only {', '.join(used) or 'one class'} is marked: mark a second class, then teach.")

    async def cancel_job(self, request: Request) -> Response:
        """Stop the job."""
        await self.jobs.cancel()
        return JSONResponse(self.jobs.job)


class _Static(StaticFiles):
    """The page's own files, asked for again each time: they change with the package."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        answer = super().file_response(*args, **kwargs)
        answer.headers["Cache-Control"] = "no-cache"
        return answer


async def _attachment(write: Callable[[Path], Path]) -> Response:
    folder = Path(tempfile.mkdtemp(prefix="shapetailor-"))
    remove = partial(shutil.rmtree, folder, ignore_errors=True)
    try:
        path = await run_in_threadpool(write, folder)
    except BaseException:
        remove()
        raise
    return FileResponse(path, filename=path.name, background=BackgroundTask(remove))


def _png(content: bytes, scale: int) -> Response:
    return Response(content, media_type="image/png", headers={"X-Scale": str(scale), "Cache-Control": "no-store"})


def _source(request: Request) -> str:
    source = request.query_params.get("source", "live")
    if source not in ("live", "applied"):
        raise Refusal(400, '"source" is live or applied.')
    return source


def _range(request: Request) -> tuple[float, float] | None:
    given = request.query_params.get("low"), request.query_params.get("high")
    if given == (None, None):
        return None
    try:
        low, high = (float(each or "") for each in given)
    except ValueError:
        raise Refusal(400, '"low" and "high" are stored numbers, such as 0 and 65535.') from None
    if not -1e38 < low < 1e38 or not -1e38 < high < 1e38:
        raise Refusal(400, '"low" and "high" are finite numbers.')
    return low, high


async def _refused(request: Request, error: Exception) -> Response:
    if isinstance(error, Refusal):
        return JSONResponse({"error": error.text}, error.status)
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)  # which nobody reads
    if isinstance(error, HTTPException):
        known = {404: "There is no such page.", 405: "This cannot be done here."}
        return JSONResponse({"error": known.get(error.status_code, error.detail)}, error.status_code)
    status = 507 if isinstance(error, (OSError, MemoryError)) and not isinstance(error, FileNotFoundError) else 422
    return JSONResponse({"error": words(error)}, status)


async def _failed(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"The server made a mistake ({type(error).__name__}). Its log says more."}, 500)
