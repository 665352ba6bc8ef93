"""The texts that a search commits beside its states, in any file system that Spark reaches."""

from typing import Any, Final

from pdproto.check.spark.session import Session


class Files:
    """The folder of one search. A text is whole or not there: it is written, and then renamed.

    Every method raises StoppedError if the file system fails.
    """

    def __init__(self, session: Session, folder: str) -> None:
        self._session: Final = session
        self._hadoop: Final = session.spark._jvm.org.apache.hadoop.fs
        self._io: Final = session.spark._jvm.org.apache.commons.io.IOUtils
        root = self._hadoop.Path(folder)
        self._system: Final = session.run(
            lambda: root.getFileSystem(session.context._jsc.hadoopConfiguration()))
        self.root: Final[str] = self._system.makeQualified(root).toString()

    def texts(self) -> list[str]:
        """The texts of the levels that were committed, from level 0 on."""
        return self._session.run(self._texts)

    def _texts(self) -> list[str]:
        texts: list[str] = []
        while self._system.exists(path := self._path(_name(len(texts)))):
            stream = self._system.open(path)
            try:
                texts.append(str(self._io.toString(stream, "UTF-8")))
            finally:
                stream.close()
        return texts

    def commit(self, level: int, text: str) -> None:
        """Write the text of a level that has none yet."""
        self._session.run(lambda: self._commit(_name(level), text))

    def _commit(self, name: str, text: str) -> None:
        written, final = self._path(f".{name}"), self._path(name)
        stream = self._system.create(written, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self._system.exists(final) or not self._system.rename(written, final):
            raise FileExistsError(f"{self.root}: another run goes on with the same search")

    def remove(self, name: str = "") -> None:
        """Remove a folder below this one, or this one, with all that is in it."""
        path = self._path(name) if name else self._hadoop.Path(self.root)
        self._session.run(lambda: self._system.delete(path, True))

    def _path(self, name: str) -> Any:
        return self._hadoop.Path(f"{self.root}/{name}")


def _name(level: int) -> str:
    return f"level-{level:06}.json"
