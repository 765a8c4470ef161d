"""Opens every page of a folder in headless Chromium, with a proxy that fails, and reports what could not be loaded.

browser.py FOLDER [MOST]
"""
import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

folder = pathlib.Path(sys.argv[1]).resolve()
most = int(sys.argv[2]) if len(sys.argv) > 2 else 20

# Every request for something outside the folder arrives here and is refused.
asked = []
proxy = socket.create_server(("127.0.0.1", 0))


def refuse():
    while True:
        connection, _ = proxy.accept()
        with connection:
            line = connection.recv(4096).split(b"\r\n")[0].decode("latin-1")
            # Requests of Chromium's background services do not come from the page.
            if not any(own in line for own in ("google", "gvt1", "gstatic")):
                asked.append(line)
            connection.sendall(b"HTTP/1.1 502 refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


threading.Thread(target=refuse, daemon=True).start()

# The browser's log lists what could not be loaded.
pages = sorted(path for path in folder.rglob("*.html"))[:most]
faults = []
for page in pages:
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
            f"--user-data-dir={profile}", f"--proxy-server=127.0.0.1:{proxy.getsockname()[1]}",
            "--proxy-bypass-list=<-loopback>", "--disable-background-networking", "--disable-component-update",
            "--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000", "--dump-dom", page.as_uri(),
        ]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    for line in run.stderr.splitlines():
        if "CONSOLE" in line and ("Failed to load" in line or "Refused to load" in line or "ERR_" in line):
            faults.append(f"{page.relative_to(folder)}: {line.strip()}")

print(json.dumps({"pages": len(pages), "asked": asked, "faults": faults}, indent=1))
assert pages, "no pages"
assert not asked, f"requests left the folder: {asked}"
assert not faults, "\n".join(faults)
