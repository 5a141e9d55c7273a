"""A store of objects for the sessions and the benchmarks: SeaweedFS, with one bucket that everybody may read."""
import contextlib
import json
import pathlib
import socket
import subprocess
import time
import urllib.request

BUCKET = "open-data"
KEY, SECRET = "test", "testsecret"
CONFIG = {"identities": [
    {"name": "owner", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
     "actions": ["Admin", "Read", "Write", "List", "Tagging"]},
    {"name": "anonymous", "actions": ["Read", "List"]}]}


def free_port():
    """One that has a free one 10,000 above it, as the store wants."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1] % 20000 + 10000
            with contextlib.suppress(OSError):
                other.bind(("127.0.0.1", port + 10000))
                return port


class Store:
    """Runs as long as it is not stopped; keeps its files in a directory, which is there already."""

    def __init__(self, python, directory):
        self.weed = pathlib.Path(python).parent / "weed"
        (directory / "s3.json").write_text(json.dumps(CONFIG))
        self.port, self.master, volume, self.filer = (free_port() for _ in range(4))
        self.process = subprocess.Popen(
            [self.weed, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", f"-dir={directory}",
             f"-s3.config={directory}/s3.json", "-master.volumeSizeLimitMB=2000", "-s3.port.iceberg=0",
             "-s3.port.lance=0", f"-s3.port={self.port}", f"-master.port={self.master}", f"-volume.port={volume}",
             f"-filer.port={self.filer}"],
            cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        while not self.answers():
            if self.process.poll() is not None:
                raise RuntimeError("the store has ended")
            self.shell(f"s3.bucket.create -name {BUCKET}")
            time.sleep(0.2)

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def shell(self, line):
        """It waits for ever for a master that is not ready."""
        words = ["timeout", "5", self.weed, "shell", f"-master=127.0.0.1:{self.master}"]
        subprocess.run(words, input=line.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def answers(self):
        try:
            with urllib.request.urlopen(f"{self.endpoint}/{BUCKET}?list-type=2", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def put(self, *paths):
        """Files and directories, by their names."""
        where = f"http://127.0.0.1:{self.filer}/buckets/{BUCKET}/"
        subprocess.run([self.weed, "filer.copy", "-c", "8", *paths, where], check=True, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.kill()
        self.process.wait()
