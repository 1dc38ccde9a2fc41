"""A process of a test run, such as a server."""

import subprocess
import threading


class Child:
    """A process whose output is read as it comes."""

    def __init__(self, name, command, **options):
        self.name, self.lines = name, []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
        )

    def read_until(self, word):
        """The first line that holds a word."""
        for line in self.process.stdout:
            self.lines.append(line)
            if word in line:
                threading.Thread(target=self.drain, daemon=True).start()
                return line
        raise SystemExit(f"{self.name} ended with {self.process.wait()} before it served:\n{''.join(self.lines)}")

    def drain(self):
        self.lines.extend(self.process.stdout)

    def end(self):
        """Asks it to end; returns its exit status."""
        self.process.stdin.close()
        self.process.terminate()
        try:
            return self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "not ended 15 s after SIGTERM"
