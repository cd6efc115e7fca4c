"""The page: a playground for a browser, made of files of this package and nothing else."""

from hashlib import sha256
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "page"
INDEX = "index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (  # only what this service sends, and no text ever becomes markup
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "object-src 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[Route]:
    """Return the routes of the page; its files are read once, so that no path is ever opened."""
    files = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.suffix in TYPES}

    async def serve(request: Request) -> Response:
        name = request.path_params.get("file", INDEX)
        if name not in files:
            raise HTTPException(404, f"the page has no file {name[:60]!r}; its start is at /")
        return _as_response(name, files[name], known=request.headers.get("if-none-match"))

    return [
        Route("/", serve, methods=["GET"], name="page"),
        Route("/page/{file}", serve, methods=["GET"], name="page_file"),
    ]


def _as_response(name: str, content: bytes, *, known: str | None) -> Response:
    tag = f'"{sha256(content).hexdigest()[:32]}"'
    headers = HEADERS | {"ETag": tag}
    if known == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=TYPES[Path(name).suffix], headers=headers)
