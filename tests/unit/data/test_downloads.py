"""Downloads, against a local server that has small files in the official formats."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import tarfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import data
from data import cache, images, text

pytestmark = pytest.mark.usefixtures("folder")


class _Handler(BaseHTTPRequestHandler):
    """Serves `files`; what is under /truncated/ ends after half of its bytes, what is under /broken/ is no HTTP."""

    def __init__(self, files, *args):
        self.files = files
        super().__init__(*args)

    def do_GET(self):
        if self.path.startswith("/broken"):
            self.wfile.write(b"garbage\r\n\r\n")
            return
        contents = self.files.get(self.path.removeprefix("/truncated"))
        if contents is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(contents)))
        self.end_headers()
        self.wfile.write(contents[: len(contents) // 2] if self.path.startswith("/truncated") else contents)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    """A dict of paths and contents that are served, and the address, on the loopback interface only."""
    files: dict[str, bytes] = {}
    http = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, files))
    http.handle_error = lambda request, address: None  # a client that stops reading is what some tests are about
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield files, f"http://127.0.0.1:{http.server_port}"
    http.shutdown()
    http.server_close()
    thread.join(timeout=5)


def _idx(values: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
    return gzip.compress(header + values.astype(np.uint8).tobytes(), mtime=0)


def _tar(members: dict[str, bytes], *special: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, contents in members.items():
            information = tarfile.TarInfo(name)
            information.size = len(contents)
            archive.addfile(information, io.BytesIO(contents))
        for information in special:
            archive.addfile(information)
    return buffer.getvalue()


def _serve(server, archive: cache.Archive, contents: dict[str, bytes], under: str = "") -> cache.Archive:
    """The archive with its files on the local server, with the sizes and hashes of these contents."""
    files, address = server
    files.update({f"/{name}": body for name, body in contents.items()})
    return dataclasses.replace(
        archive,
        files=tuple(
            cache.File(f"{address}{under}/{name}", len(body), hashlib.sha256(body).hexdigest())
            for name, body in contents.items()
        ),
    )


X_TRAIN = np.arange(6 * 28 * 28).reshape(6, 28, 28) % 251
X_TEST = (np.arange(4 * 28 * 28).reshape(4, 28, 28) * 7) % 251
MNIST_FILES = {
    "train-images-idx3-ubyte.gz": _idx(X_TRAIN),
    "train-labels-idx1-ubyte.gz": _idx(np.array([3, 1, 4, 1, 5, 9])),
    "t10k-images-idx3-ubyte.gz": _idx(X_TEST),
    "t10k-labels-idx1-ubyte.gz": _idx(np.array([2, 6, 5, 3])),
}


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_mnist_is_downloaded_converted_and_cached_once(server, folder, monkeypatch, name):
    monkeypatch.setitem(images.ARCHIVES, name, _serve(server, images.ARCHIVES[name], MNIST_FILES))
    dataset = data.load(name)
    np.testing.assert_array_equal(dataset.x, np.concatenate([X_TRAIN, X_TEST]))
    train, test = dataset.split()
    assert train.y.tolist() == [3, 1, 4, 1, 5, 9]
    assert test.y.tolist() == [2, 6, 5, 3]
    assert train.x.shape == (6, 28, 28)
    assert train.x.mean() == pytest.approx(0, abs=1e-5)
    assert sorted(path.name for path in folder.iterdir()) == ["downloads", f"{name}.npz"]
    server[0].clear()  # the second time nothing is asked for
    np.testing.assert_array_equal(data.load(name).x, dataset.x)


def test_official_files_put_there_by_hand_are_used(server, folder, monkeypatch):
    monkeypatch.setitem(images.ARCHIVES, "mnist", _serve(server, images.ARCHIVES["mnist"], MNIST_FILES))
    server[0].clear()
    (folder / "downloads" / "mnist").mkdir(parents=True)
    for name, contents in MNIST_FILES.items():
        (folder / "downloads" / "mnist" / name).write_bytes(contents)
    assert len(data.load("mnist")) == 10


def _cifar_batch(seed: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, 10, 3, dtype=np.uint8)
    pixels = generator.integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    body = b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, pixels, strict=True))
    return body, pixels.transpose(0, 2, 3, 1), labels


def test_cifar10_binary_version(server, monkeypatch):
    batches = {f"data_batch_{i}.bin": _cifar_batch(i) for i in range(1, 6)} | {"test_batch.bin": _cifar_batch(9)}
    body = _tar({f"cifar-10-batches-bin/{name}": batch[0] for name, batch in batches.items()})
    archive = _serve(server, images.ARCHIVES["cifar10"], {"cifar-10-binary.tar.gz": body})
    monkeypatch.setitem(images.ARCHIVES, "cifar10", archive)
    dataset = data.load("cifar10")
    assert dataset.x.shape == (18, 32, 32, 3)
    np.testing.assert_array_equal(dataset.x[:3], batches["data_batch_1.bin"][1])
    np.testing.assert_array_equal(dataset.x[-3:], batches["test_batch.bin"][1])
    np.testing.assert_array_equal(dataset.y[3:6], batches["data_batch_2.bin"][2])
    train, test = dataset.split()
    assert (len(train), len(test)) == (15, 3)
    np.testing.assert_allclose(train.x.mean(axis=(0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(train.x.std(axis=(0, 1, 2)), 1, rtol=1e-5)


REVIEWS = {
    "aclImdb/train/neg/0_1.txt": b"Bad, bad film.<br /><br />It's bad",
    "aclImdb/train/pos/0_9.txt": b"A good film. " + b"good " * 150,
    "aclImdb/test/neg/0_2.txt": b"Bad film of 1999",
    "aclImdb/test/pos/0_8.txt": b"good!",
}


def test_imdb_words_are_numbered_by_how_often_they_come_up(server, monkeypatch):
    archive = _serve(server, text.ARCHIVE, {"aclImdb_v1.tar.gz": _tar(REVIEWS)})
    monkeypatch.setattr(text, "ARCHIVE", archive)
    dataset = data.load("imdb")
    train, test = dataset.split()
    # good 151 times, bad 3, film 2, then "a" and "it's" once each, in alphabetical order
    assert dataset.extras["vocab"].tolist() == ["good", "bad", "film", "a", "it's"]
    assert train.x.dtype == np.int32
    assert train.x.shape == (2, 100)
    assert sorted(train.y.tolist()) == sorted(test.y.tolist()) == [0, 1]
    bad, good = train.x[train.y == 0][0], train.x[train.y == 1][0]
    assert bad[-7:].tolist() == [0, 1, 4, 4, 5, 7, 4]  # padding, start, bad bad film it's bad
    assert (good == 3).all()  # the last hundred words are all "good"
    assert test.x[test.y == 0][0, -5:].tolist() == [1, 4, 5, 2, 2]  # "of" and "1999" are not among the training words


def test_truncated_download_is_refused_and_leaves_nothing(server, folder, monkeypatch):
    archive = _serve(server, images.ARCHIVES["mnist"], MNIST_FILES, under="/truncated")
    monkeypatch.setitem(images.ARCHIVES, "mnist", archive)
    with pytest.raises((ValueError, FileNotFoundError), match=r"bytes, not \d+|IncompleteRead"):
        data.load("mnist")
    assert not list((folder / "downloads" / "mnist").iterdir())
    assert not (folder / "mnist.npz").exists()


def test_wrong_checksum_is_refused(server, folder, monkeypatch):
    archive = _serve(server, images.ARCHIVES["mnist"], MNIST_FILES)
    spoiled = bytearray(MNIST_FILES["train-images-idx3-ubyte.gz"])
    spoiled[-1] ^= 1
    server[0]["/train-images-idx3-ubyte.gz"] = bytes(spoiled)
    monkeypatch.setitem(images.ARCHIVES, "mnist", archive)
    with pytest.raises(ValueError, match=r"its SHA-256 is \w{64}, not \w{64}"):
        data.load("mnist")
    assert not list((folder / "downloads" / "mnist").iterdir())


def test_more_bytes_than_published_are_refused(server, folder, monkeypatch):
    archive = _serve(server, images.ARCHIVES["mnist"], MNIST_FILES)
    server[0]["/train-images-idx3-ubyte.gz"] = MNIST_FILES["train-images-idx3-ubyte.gz"] + b"\0" * 10_000_000
    monkeypatch.setitem(images.ARCHIVES, "mnist", archive)
    with pytest.raises(ValueError, match=r"sent more than the \d+ bytes"):
        data.load("mnist")


def test_wrong_file_put_there_by_hand_is_named(server, folder, monkeypatch):
    monkeypatch.setitem(images.ARCHIVES, "mnist", _serve(server, images.ARCHIVES["mnist"], MNIST_FILES))
    (folder / "downloads" / "mnist").mkdir(parents=True)
    (folder / "downloads" / "mnist" / "train-images-idx3-ubyte.gz").write_bytes(b"hello")
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte.gz; remove it, it is not .* 5 bytes, not"):
        data.load("mnist")


def _outside() -> tarfile.TarInfo:
    return tarfile.TarInfo("../../evil.txt")


def _absolute() -> tarfile.TarInfo:
    information = tarfile.TarInfo("link")
    information.type, information.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return information


def _device() -> tarfile.TarInfo:
    information = tarfile.TarInfo("device")
    information.type = tarfile.CHRTYPE
    return information


@pytest.mark.parametrize("member", [_outside, _absolute, _device])
def test_malicious_archive_is_refused(server, folder, tmp_path, monkeypatch, member):
    body = _tar({"cifar-10-batches-bin/test_batch.bin": b""}, member())
    archive = _serve(server, images.ARCHIVES["cifar10"], {"cifar-10-binary.tar.gz": body})
    monkeypatch.setitem(images.ARCHIVES, "cifar10", archive)
    with pytest.raises(ValueError, match=r"cifar-10-binary.tar.gz is malicious"):
        data.load("cifar10")
    assert not list(tmp_path.rglob("evil.txt"))
    assert not (folder / "cifar10.npz").exists()


def test_archive_without_its_batches_is_refused(server, monkeypatch):
    archive = _serve(server, images.ARCHIVES["cifar10"], {"cifar-10-binary.tar.gz": _tar({"readme": b"hi"})})
    monkeypatch.setitem(images.ARCHIVES, "cifar10", archive)
    with pytest.raises(ValueError, match=r"lacks data_batch_1.bin"):
        data.load("cifar10")


def test_offline_and_not_cached_says_where_to_put_which_file(folder, monkeypatch):
    unreachable = tuple(dataclasses.replace(file, url=f"http://127.0.0.1:9/{file.name}")
                        for file in images.ARCHIVES["mnist"].files)  # fmt: skip
    monkeypatch.setitem(images.ARCHIVES, "mnist", dataclasses.replace(images.ARCHIVES["mnist"], files=unreachable))
    with pytest.raises(FileNotFoundError) as caught:
        data.load("mnist")
    message = str(caught.value)
    assert str(folder / "mnist.npz") in message
    assert "x_train: uint8 (n, 28, 28)" in message
    assert str(folder / "downloads" / "mnist") in message
    assert "TOUCHSTONE_DATA" in message


def test_a_server_that_does_not_speak_http(server, monkeypatch):
    archive = _serve(server, images.ARCHIVES["mnist"], MNIST_FILES, under="/broken")
    monkeypatch.setitem(images.ARCHIVES, "mnist", archive)
    with pytest.raises(FileNotFoundError, match=r"can't be had \(BadStatusLine"):
        data.load("mnist")


def test_missing_on_the_server(server, monkeypatch):
    monkeypatch.setitem(images.ARCHIVES, "mnist", _serve(server, images.ARCHIVES["mnist"], MNIST_FILES))
    server[0].clear()
    with pytest.raises(FileNotFoundError, match=r"can't be had \(<HTTPError 404"):
        data.load("mnist")


def test_an_interrupted_conversion_leaves_no_file(server, folder, monkeypatch):
    monkeypatch.setitem(images.ARCHIVES, "mnist", _serve(server, images.ARCHIVES["mnist"], MNIST_FILES))
    monkeypatch.setattr(cache.np, "savez_compressed", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        data.load("mnist")
    assert [path.name for path in folder.iterdir()] == ["downloads"]


def test_published_hashes_are_whole():
    for archive in (*images.ARCHIVES.values(), text.ARCHIVE):
        assert "TensorFlow Datasets" in archive.checksums
        for file in archive.files:
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size > 0
