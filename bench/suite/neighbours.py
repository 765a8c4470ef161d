"""A server of costly hosts for S13b: `python3 -m suite.neighbours KIND` prints its roots, one per line, and serves.

drip      100 hosts whose pages arrive at 80 bytes a second
crowd     400 of them, more than there are slots
sitemaps  one host with four pages, whose robots.txt names an index of indexes of sitemaps
links     one host whose pages have 1,040 links of 4,000 bytes each
"""

import asyncio
import sys

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
# Sitemaps in an index.
CHILDREN = 20_000


def response(kind, base, path):
    """The response to a request, and whether it drips: 8 bytes every 100 ms."""
    if kind == "sitemaps":
        if path == "/robots.txt":
            return complete(b"text/plain", b"Sitemap: %s/0.xml\n" % base)
        if path.endswith(".xml"):
            name = path[1:-4].encode()
            listed = b"".join(b"<sitemap><loc>%s/%s-%d.xml</loc></sitemap>" % (base, name, n) for n in range(CHILDREN))
            return complete(b"application/xml", b"<sitemapindex>%s</sitemapindex>" % listed)
        return complete(b"text/html", b"".join(b"<a href=/%d>%d</a>" % (n, n) for n in range(4)))
    if path == "/robots.txt":
        return MISSING, False
    if kind == "links":
        page = path.strip("/").replace("/", "-")[-12:].encode()
        links = b"".join(b"<a href=%s-%d>x</a>" % (page, n) for n in range(1_040))
        return complete(b"text/html", b"<base href='%s/%s/'>%s" % (base, b"b" * 3_900, links))
    text = b"<p>%s</p>" % (b"drip " * 2_000)
    return complete(b"text/html", b"".join(b"<a href=%s%d>x</a>" % (path.encode(), n) for n in range(8)) + text)[0], True


def complete(kind, body):
    """A response that does not drip."""
    return HEAD % (kind, len(body)) + body, False


async def serve(kind, reader, writer):
    """Responds to the requests of one connection."""
    try:
        while line := await reader.readline():
            path, host = line.split(b" ")[1].decode(), b""
            while (field := await reader.readline()).strip():
                if field.lower().startswith(b"host:"):
                    host = field.split(b":", 1)[1].strip()
            unsent, drips = response(kind, b"http://" + host, path)
            while drips and unsent:
                writer.write(unsent[:8])
                unsent = unsent[8:]
                await writer.drain()
                await asyncio.sleep(0.1)
            writer.write(unsent)
            await writer.drain()
    except (ConnectionError, IndexError, ValueError):
        pass
    finally:
        writer.close()


async def main(kind):
    server = await asyncio.start_server(lambda reader, writer: serve(kind, reader, writer), "0.0.0.0", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    hosts = {"drip": 100, "crowd": 400}.get(kind, 1)
    for number in range(hosts):
        print(f"http://127.9.{number // 250}.{1 + number % 250}:{port}/", flush=True)
    print("-", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
