"""Whether a server is up, as the kernel tells it; the probe, compiled once for all ranks."""

from __future__ import annotations

import importlib.machinery
import socket
from pathlib import Path

import pytest

from grader.ranks.inside import rendezvous, sockets
from grader.ranks.watch.folder import RunFolder, compiled


def asked() -> set[int]:
    """The ports as the kernel tells them, where it does."""
    try:
        present = sockets.Present()
    except (OSError, AttributeError):
        pytest.skip("this system does not tell of its sockets")
    try:
        return rendezvous._told(present)
    finally:
        present.close()


@pytest.mark.parametrize("ports", [asked, rendezvous._tabled])
def test_a_server_is_up_once_it_has_accepted_a_connection(ports) -> None:
    """Neither when it listens, nor while a client waits to be accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert port not in ports()
        with socket.create_connection(("127.0.0.1", port)):
            assert port not in ports()
            with server.accept()[0]:
                assert port in ports()


def test_a_system_that_tells_nothing_does_not_keep_a_client_waiting(monkeypatch) -> None:
    """Then torch's own way of trying begins at once."""
    monkeypatch.setattr(rendezvous, "Present", lambda: (_ for _ in ()).throw(OSError("refused")))
    monkeypatch.setattr(rendezvous, "TABLES", ("/no/such/table",))
    monkeypatch.setattr(rendezvous.time, "sleep", lambda _: pytest.fail("it waited"))
    rendezvous._await_server(1)


def test_ranks_import_the_probe_as_it_was_compiled_once(tmp_path: Path) -> None:
    """Python takes the compiled file beside the source."""
    folder = RunFolder(tmp_path / "run", {"probe.py": b"NAME = __name__\n", "student.py": b"x = 1\n"}, 1)
    assert [file.name.split(".")[0] for file in (folder.code / "__pycache__").iterdir()] == ["probe"]
    (folder.code / "probe.py").write_text("raise SystemExit('the source was compiled again')")
    loader = importlib.machinery.SourceFileLoader("probe", str(folder.code / "probe.py"))
    code = loader.get_code("probe")
    assert code is not None and "NAME" in code.co_names


@pytest.mark.parametrize("source", [b"def f(:\n", b"x = '\x00'\n", b"\xff\n"])
def test_a_probe_that_cannot_be_compiled_is_left_to_the_ranks(source: bytes, tmp_path: Path) -> None:
    """Each says then what is wrong with it."""
    assert compiled(source) is None
    assert not (RunFolder(tmp_path / "run", {"probe.py": source}, 1).code / "__pycache__").exists()
