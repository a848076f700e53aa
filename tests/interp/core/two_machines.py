"""A Ray cluster of two machines: two network namespaces with an address each and a cable between them.

Where that is not permitted (it takes root and iproute2) the cluster has one machine, this one. Each machine has four
cores and two GPUs on paper: Ray counts them, nobody computes on them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
HEAD, SECOND = "10.231.7.1", "10.231.7.2"
SETTINGS = {
    "PYTHONPATH": str(ROOT),
    "RAY_worker_niceness": "0",  # else workers wait for whatever else is tested
    "RAY_raylet_start_wait_time_s": "600",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "1000",  # a machine counts as lost after a few seconds, not half a minute
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "4",
}


class Machines:
    """The cluster, up when it is made."""

    def __init__(self) -> None:
        self.name = f"ct{os.getpid()}"
        self.folder = Path(tempfile.mkdtemp(prefix="ct"))  # sockets are in it, whose paths must be short
        self.processes: list[subprocess.Popen] = []
        self.why_one = self._wired()
        self.address = f"{HEAD if self.two else '127.0.0.1'}:{6400 + os.getpid() % 1000}"
        host, _, port = self.address.partition(":")
        try:
            self._start("a", "--head", "--include-dashboard=false", f"--port={port}", f"--node-ip-address={host}")
            if self.two:
                self._start("b", f"--address={self.address}", f"--node-ip-address={SECOND}")
        except BaseException:
            self.end()
            raise

    @property
    def two(self) -> bool:
        return not self.why_one

    def inside(self, machine: str, *words: str) -> list[str]:
        """A command as it is run on a machine."""
        return [*(("ip", "netns", "exec", f"{self.name}{machine}") if self.two else ()), *words]

    def pids(self) -> list[int]:
        """Every process on the machines, or below them."""
        found = {process.pid for process in self.processes}
        for entry in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:  # it ended meanwhile
                continue
            if parent in found:
                found.add(int(entry.name))
        return sorted(found)

    def cut(self) -> None:
        """Pulls the cable."""
        _ip("-n", f"{self.name}a", "link", "set", "cable", "down")

    def end(self) -> None:
        for pid in self.pids():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                continue
        for process in self.processes:
            process.wait(300)
        if self.two:
            for machine in "ab":
                _ip("netns", "delete", f"{self.name}{machine}")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wired(self) -> str:
        """Lays the cable; why it cannot be done, or nothing."""
        try:
            for machine in "ab":
                _ip("netns", "add", f"{self.name}{machine}")
            a, b = f"{self.name}a", f"{self.name}b"
            _ip("link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable", "netns", b)
            for machine, address in ((a, HEAD), (b, SECOND)):
                _ip("-n", machine, "addr", "add", f"{address}/24", "dev", "cable")
                _ip("-n", machine, "link", "set", "lo", "up")
                _ip("-n", machine, "link", "set", "cable", "up")
                _ip("netns", "exec", machine, "true")
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", None) or error
            return f"network namespaces are not permitted here: {said}"
        return ""

    def _start(self, machine: str, *words: str) -> None:
        ray = [str(Path(sys.executable).with_name("ray")), "start", "--block", f"--temp-dir={self.folder / machine}"]
        size = ["--num-cpus=4", "--num-gpus=2", "--object-store-memory=90000000", "--disable-usage-stats"]
        log = self.folder / f"{machine}.log"
        environment = {**os.environ, **SETTINGS}
        with log.open("w") as output:
            process = subprocess.Popen(
                self.inside(machine, *ray, *size, *words), stdout=output, stderr=output, env=environment, cwd=ROOT
            )
        self.processes.append(process)
        deadline = time.monotonic() + 600  # a busy machine is no failure
        while "Ray runtime started" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=300)
