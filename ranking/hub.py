"""Fetches data sets from the Hugging Face hub and from URIs; without a network, requests fail at once and quietly."""

from __future__ import annotations

import logging
import os
import re
import socket
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlparse, urlsplit

from platformdirs import user_cache_dir

from pyrite.ranking.digest import digest
from pyrite.ranking.errors import BadInput, refuse
from pyrite.ranking.lazy import fsspec, huggingface_hub, pyarrow

HUB = "hf:"
"""The beginning of a path that names a dataset at the hub."""
HUB_PATH = re.compile(r"hf:/{1,2}datasets/(?P<name>[^/]+/[^/@]+)(@[^/]+)?/?(?P<inside>.*)")
"""The form in which polars and pandas name the files of a dataset at the hub."""
URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/{1,2}(?P<rest>(?!/).*|/.*)")
TABLES = [f"*.{ending}{packed}" for ending in ("parquet", "csv", "tsv", "json", "jsonl") for packed in ("", ".gz")]


@cache
def prepare_hub() -> None:
    """Silence the hub's retries, and make it use downloaded files alone if its name can't be resolved."""
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    if urllib.request.getproxies():
        return  # the proxy resolves names
    try:
        socket.getaddrinfo(urlparse(huggingface_hub.constants.ENDPOINT).hostname, 443)
    except OSError:
        huggingface_hub.constants.HF_HUB_OFFLINE = True


def local_path(path: str | Path) -> Path:
    """Return a path on this machine: the path itself, or that of a copy of what a URI names.

    Args:
        path: a path; `hf:NAME`, a dataset at the hub, or `hf://datasets/NAME/FILE`, one of its files; or the URI of a
            file or folder, such as `s3://bucket/pairs.parquet` or `https://host/pairs.csv`.

    Raises:
        BadInput: if it can't be fetched.
    """
    text = str(path)
    if at_hub := HUB_PATH.fullmatch(text):
        inside = at_hub["inside"]
        folder = _from_hub(at_hub["name"], [inside] if inside else TABLES)
        return folder / inside if inside else folder
    if text.startswith(HUB):
        return _from_hub(text.removeprefix(HUB), TABLES)
    uri = URI.fullmatch(text)
    if uri is None:
        return Path(os.path.expanduser(path))
    # A path whose slashes were joined is a URI as well: s3:/bucket.
    scheme, rest = uri["scheme"].lower(), uri["rest"]
    return (
        Path("/" + rest.removeprefix("localhost/").lstrip("/")) if scheme == "file" else _fetched(f"{scheme}://{rest}")
    )


def _from_hub(name: str, patterns: list[str]) -> Path:
    """Return the folder to which files of a dataset were downloaded."""
    prepare_hub()
    huggingface_hub.utils.disable_progress_bars()
    try:
        return Path(huggingface_hub.snapshot_download(name, repo_type="dataset", allow_patterns=patterns))
    except Exception as error:  # of the network, of the hub, and of names: their classes change between versions
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        why = "no network, and it was not downloaded before" if huggingface_hub.constants.HF_HUB_OFFLINE else why
        remedy = "check name and network, or download it elsewhere and give collection.path=FOLDER"
        raise BadInput(f"can't be fetched from the hub ({why})", f"{HUB}{name}", remedy) from None


@cache
def _fetched(uri: str) -> Path:
    """Return the copy of what a URI names, in the cache folder; it is fetched again if that has changed."""
    remedy = "copy it to this machine, and give collection.path=PATH"
    ending = Path(urlsplit(uri).path).suffix  # an address may go on after it: pairs.csv?download=true
    refuse(uri.startswith("http") and not ending, "names no file that ends in its format, as pairs.csv", uri, remedy)
    try:
        return _copied(uri)
    except ImportError as error:
        raise BadInput(f"can't be read without another package ({error})", uri, f"install it, or {remedy}") from None
    except FileNotFoundError:
        raise BadInput("no such file there, or no network", uri, f"check the address, or {remedy}") from None
    except Exception as error:  # of the network, of each kind of storage: their classes differ
        why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise BadInput(f"can't be fetched ({why})", uri, f"check address and network, or {remedy}") from None


def _copied(uri: str) -> Path:
    """Return the copy of what a URI names; errors are those of the network and of the storage."""
    files, place = _storage(uri)
    info = files.info(place)
    is_folder = info["type"] == "directory"
    content = files.find(place, detail=True) if is_folder else {place: info}
    state = digest([uri, {name: str(details) for name, details in content.items()}])
    copy = Path(user_cache_dir("pyrite")) / "fetched" / state / (Path(urlsplit(place).path).name or "files")
    if not copy.exists():
        unfinished = Path(f"{copy}.{os.getpid()}")
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        for name in content:
            target = unfinished / os.path.relpath(name, place) if is_folder else unfinished
            target.parent.mkdir(parents=True, exist_ok=True)
            files.get_file(name, str(target))
        unfinished.rename(copy)
    return copy


def _storage(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI and the path in it: pyarrow's for object stores, that of fsspec for others."""
    if uri.partition(":")[0] not in ("s3", "gs", "gcs", "abfs", "abfss", "hdfs"):
        files, place = fsspec.url_to_fs(uri)
        return files, place
    # Google's client would otherwise try again for a quarter of an hour.
    limit = f"{'&' if '?' in uri else '?'}retry_limit_seconds=10" * uri.startswith("g")
    store, place = pyarrow.fs.FileSystem.from_uri(uri + limit)
    return fsspec.implementations.arrow.ArrowFSWrapper(store), place


def default_cache() -> Path:
    """Return the default folder for collections and everything derived from them."""
    return Path(user_cache_dir("pyrite"))
