"""The library's side and the monitor's of the rendezvous, spoken by hand (crates/channel/src/rendezvous.rs), and the words
of a ring region (layout.rs)."""

import fcntl
import os
import socket
import struct
from collections import namedtuple

MESSAGE = struct.Struct("<4sHHQQQHBBI24x")
VERSION = 1
HELLO, WELCOME, OFFER, PAIRED = 1, 2, 4, 5
RING_BYTES, END_BYTES, PAGE_BYTES = 4096 + 2 * (16 + 64 + 256 + 1024) * 1024, 4096, 4096
RING_MAGIC = b"RINGWAY1"
# Offsets in a process page.
UPGRADED_AT, REFUSALS_AT, REGION_INVALID = 128 + 2 * 8, 1024, 14

Message = namedtuple("Message", "kind token connection role")

DIRECTIONS = [128, 640]
# Offsets in a direction.
PATH_AT, RECEIVER_READY_AT, RING_BEGINS_AT = 384, 388, 400
LONG_WORDS = [0, 16] + [d + at for d in DIRECTIONS for at in (0, 8, 24, 128, 400, 408, 416)]
SHORT_WORDS = [8, 12] + [d + at for d in DIRECTIONS for at in (16, 136, 256, 260, 264, 268, 384, 388, 392)]


def bytes_written(tcp_info):
    """Bytes that a socket has ever written: sent once, plus those that wait."""
    sent, again = struct.unpack_from("<QQ", tcp_info, 200)
    return sent - again + struct.unpack_from("<I", tcp_info, 144)[0]


def encode(kind, token=0, connection=0, role=0):
    return MESSAGE.pack(b"RWG1", VERSION, kind, token, connection, 0, 0, role, 0, os.getpid())


def send(line, kind, fds=(), **fields):
    socket.send_fds(line, [encode(kind, **fields)], list(fds))


def receive(line):
    """A message and its descriptors; `None` at the end."""
    data, fds, _, _ = socket.recv_fds(line, MESSAGE.size, 2)
    if not data:
        return None, fds
    _, _, kind, token, connection, _, _, role, _, _ = MESSAGE.unpack(data)
    return Message(kind, token, connection, role), fds


def memfd(size, seal=True, content=b""):
    fd = os.memfd_create("by-hand", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, content, 0)
    if seal:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def ring(size=RING_BYTES, seal=True, magic=RING_MAGIC, version=VERSION, connection=1):
    return memfd(size, seal, struct.pack("<8sIIQ", magic, version, RING_BYTES, connection)[:size])
