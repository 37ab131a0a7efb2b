"""Creates files that only their owner can read, and refuses file systems that SQLite cannot lock."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from pyrite.ranking.errors import refuse

NETWORK = {
    "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "afpfs", "ncpfs", "webdav", "davfs", "ceph", "lustre",
    "gpfs", "beegfs", "glusterfs", "orangefs", "pvfs2", "ocfs2", "fuse.sshfs", "fuse.davfs", "fuse.davfs2",
    "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.gcsfuse", "fuse.goofys", "fuse.mount-s3", 
    "fuse.rclone", "fuse.juicefs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.beegfs",
}  # fmt: skip
"""File systems that several machines mount, by the kernel's names."""


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter; an existing folder keeps its mode."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def private_file(path: Path) -> None:
    """Create an empty file if it does not exist, and let only its owner read or write it."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        path.chmod(0o600)  # not opened: closing a file again would drop the locks that SQLite has on it


def check_local(folder: Path) -> None:
    """Refuse a folder on a network file system.

    SQLite's write-ahead log is shared memory: processes on two machines would each see a different one, and the locks
    of many network file systems do not hold. The result would be a damaged file of judgements.
    """
    kind = file_system(folder)
    refuse(
        kind in NETWORK,
        f"is on a network file system ({kind}), where judgements could be lost",
        folder,
        "choose an out= on a disk of this machine, and copy it when the judging is over",
    )


def file_system(path: Path) -> str:
    """Return the type of the file system that holds a path, in lower case; empty if the system does not report it."""
    place = path.resolve()
    mounts = [
        (len(Path(mount.mountpoint).parts), mount.fstype.lower())
        for mount in psutil.disk_partitions(all=True)
        if place.is_relative_to(mount.mountpoint)
    ]
    # Of several mounts at one path the last covers the others.
    return max(reversed(mounts), key=lambda mount: mount[0], default=(0, ""))[1]
