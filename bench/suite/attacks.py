"""Serves responses that need much memory. `python3 -m suite.attacks KIND` prints its port and listens on all of 127.0.0.0/8.

hosts     every page is short
names     every page of 127.0.0.1 names 1,000 new hosts (127.x.y.z), 1,000 pages of it; names10: 10,000 pages
invented  every page names 9,980 new hosts, compressed; the hosts are 127.x.y.z
zstd      a body of 262 bytes that fills a window of 8 MiB, then the server pauses; zstd3: in two more layers
brotli    the same with 9 MiB in a window of 16 MiB (needs the command brotli)
links     pages of 10 KB that decompress to 4 MiB of links
heads     heads of 240 KB, in pieces
cookies   50 cookies of 4 KB each
etags     ETags of 1,000 bytes
"""

import asyncio
import gzip
import itertools
import subprocess
import sys

PAUSE = 2.0
page_numbers = itertools.count(1)
cached = {}


def address(number):
    """The n-th address of 127.0.0.0/8 after the first 65,536."""
    number += 1 << 16
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def head(length, more=b"", kind=b"text/html"):
    """The head of a response with a body of this length; `more` are further header lines."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n" % (kind, length, more)


def encoded_response(encodings, body):
    """A response whose body is compressed with these encodings."""
    return head(len(body), b"Content-Encoding: %s\r\n" % encodings) + body


def zstd_header(window_log):
    """The start of a zstd frame: the magic number, no content length, and a window of `1 << window_log` bytes."""
    return b"\x28\xb5\x2f\xfd\x00" + bytes([(window_log - 10) << 3])


def zstd_block(size, kind, last):
    """The header of a block: kind 0 is raw, kind 1 repeats one byte."""
    return (size << 3 | kind << 1 | int(last)).to_bytes(3, "little")


def zstd(content, window_log=23):
    """A zstd frame of raw blocks with a large window and an unknown length."""
    frame = zstd_header(window_log)
    pieces = [content[at : at + 65_536] for at in range(0, len(content), 65_536)]
    for number, piece in enumerate(pieces):
        frame += zstd_block(len(piece), kind=0, last=number + 1 == len(pieces)) + piece
    return frame


def zstd_full(window_log=23):
    """A zstd frame of 262 bytes whose output fills a window of 8 MiB: blocks of 128 KiB of the same byte."""
    block = 128 << 10
    count = (1 << window_log) // block
    frame = zstd_header(window_log)
    for number in range(count):
        frame += zstd_block(block, kind=1, last=number + 1 == count) + b" "
    return frame


def brotli():
    """9 MiB of spaces by the command brotli, with the largest window."""
    return subprocess.run(["brotli", "-w", "24", "-c"], input=b" " * (9 << 20), capture_output=True, check=True).stdout


def make_once(name, make):
    """The response of this name, which is made at the first call."""
    if name not in cached:
        cached[name] = make()
    return cached[name]


def link_page():
    """A page that is short when compressed: a long base URL and short links."""
    links = b"".join(b"<a href=%d>" % n for n in range(1_040))
    body = gzip.compress(b"<base href='/%s/'>%s" % (b"b" * 3_980, links))
    return encoded_response(b"gzip", body)


def response_pieces(kind, path, port):
    """The response as a list of pieces of bytes, and pauses in seconds between them."""
    page = b"<p>hello " * 30
    if path == "/robots.txt":
        return [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"]
    if kind in ("names", "names10"):
        count = 1_000 if path.startswith("/n") or path == "/" else 0
        first = next(page_numbers) * 1_000 if count else 0
        body = b"".join(b"<a href=http://%s:%d/>x</a>" % (address(first + n).encode(), port) for n in range(count))
        if path == "/":
            body += b"".join(b"<a href=/n%d>x</a>" % n for n in range(10_000 if kind == "names10" else 1_000)) if first == 1_000 else b""
        return [head(len(body)) + body]
    if kind == "invented":
        first = next(page_numbers) * 9_980
        body = b"".join(b"<a href=http://%s:%d/>" % (address(first + n).encode(), port) for n in range(9_980))
        return [encoded_response(b"gzip", gzip.compress(body + b"<a href=/p%d>" % first, 1))]
    if kind in ("zstd", "zstd3", "brotli"):
        make_body = {
            "zstd": zstd_full,
            "zstd3": lambda: zstd(zstd(zstd_full())),
            "brotli": brotli,
        }[kind]
        encodings = {"zstd": b"zstd", "zstd3": b"zstd, zstd, zstd", "brotli": b"br"}[kind]
        response = make_once(kind, lambda: encoded_response(encodings, make_body()))
        return [response[:-4], PAUSE, response[-4:]]
    if kind == "links":
        return [make_once(kind, link_page)]
    if kind == "heads":
        fields = b"".join(b"X-%d: %s\r\n" % (n, b"h" * 4_000) for n in range(60))
        response = make_once(kind, lambda: head(len(page), fields) + page)
        return [response[:120_000], 0.2, response[120_000:]]
    if kind == "cookies":
        fields = b"".join(b"Set-Cookie: c%d=%s\r\n" % (n, b"v" * 4_000) for n in range(50))
        return [make_once(kind, lambda: head(len(page), fields) + page)]
    if kind == "etags":
        return [make_once(kind, lambda: head(len(page), b'ETag: "%s"\r\n' % (b"e" * 1_000)) + page)]
    return [head(len(page)) + page]


async def serve(kind, reader, writer):
    """Responds to the requests of one connection."""
    port = writer.get_extra_info("sockname")[1]
    try:
        while line := await reader.readline():
            path = line.split(b" ")[1].decode()
            while (await reader.readline()).strip():
                pass
            for piece in response_pieces(kind, path, port):
                if isinstance(piece, float):
                    await asyncio.sleep(piece)
                else:
                    writer.write(piece)
                    await writer.drain()
    except (ConnectionError, IndexError, ValueError):
        pass
    finally:
        writer.close()


async def main(kind):
    server = await asyncio.start_server(lambda reader, writer: serve(kind, reader, writer), "0.0.0.0", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
