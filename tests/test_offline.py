"""Is the network really closed to the tests?"""

import os
import socket
import urllib.request

import pytest
import torch


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_connecting_is_refused(family):
    with socket.socket(family) as s, pytest.raises(RuntimeError, match="must not touch the network"):
        s.connect(("127.0.0.1" if family == socket.AF_INET else "::1", 9))


def test_datagrams_are_refused():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s, pytest.raises(RuntimeError, match="network"):
        s.sendto(b"x", ("127.0.0.1", 9))


def test_urls_and_names_are_refused():
    with pytest.raises(RuntimeError, match=r"looked up the host 'example\.org'"):
        urllib.request.urlopen("http://example.org", timeout=1)


def test_unix_sockets_still_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path may have 108 characters only
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind("s")
        server.listen(1)
        client.connect("s")
        client.sendall(b"hello")
        assert server.accept()[0].recv(5) == b"hello"


def test_one_thread_and_offline_hub():
    assert torch.get_num_threads() == 1
    assert os.environ["HF_HUB_OFFLINE"] == "1"
