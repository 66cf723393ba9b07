"""Files of evidence on any store that Spark reads, listed and opened by Hadoop's client."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from kedge.evidence.errors import EvidenceError, one_line
from kedge.evidence.files import replace_text

#: Footers that are read at the same time: each waits for its store, and for answers of Java.
_FOOTERS: Final = 16


class File(NamedTuple):
    """A file: its URI, and its size in bytes."""

    uri: str
    size: int

    @property
    def name(self) -> str:
        """Its name in its folder."""
        return self.uri.rpartition("/")[2]


def shown(uri: str) -> str:
    """Return a URI as a person writes it: a file of this machine without its scheme."""
    parsed = urlparse(uri)
    return unquote(parsed.path) if parsed.scheme == "file" else uri


def on_this_machine(uri: str) -> Path | None:
    """Return a URI's path on this machine; None where another store has it."""
    path = shown(uri)
    return None if "://" in path else Path(path)


def located(uri: str) -> str:
    """Return a URI that Spark reads; a path without a scheme is one of this machine."""
    uri = uri.rstrip("/")
    return uri if "://" in uri or uri.startswith("file:") else Path(uri).absolute().as_uri()


def parquet_files(spark: SparkSession, folder: str) -> list[File]:
    """Return the Parquet files of a folder in their order; none where there is no such folder.

    Hidden ones (``.`` and ``_``) are left out, as Spark leaves them out.

    Raises:
        EvidenceError: when the store does not answer.
    """
    some = [
        file
        for file in all_files(spark, folder)
        if file.name.endswith(".parquet") and file.name[0] not in "._"
    ]
    # Those of one writer in the order in which it wrote them.
    some.sort(
        key=lambda file: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", file.name)]
    )
    return some


def all_files(spark: SparkSession, folder: str) -> list[File]:
    """Return the files of a folder, hidden ones too; none where there is no such folder.

    Raises:
        EvidenceError: when the store does not answer, and for a folder in it.
    """
    system, path = _at(spark, folder)
    try:
        # A store without folders has none that could be missing.
        found = [*system.listStatus(path)] if system.exists(path) else []
        inner = [str(one.getPath()) for one in found if one.isDirectory()]
        files = [File(str(one.getPath()), int(one.getLen())) for one in found if one.isFile()]
    except Py4JJavaError as error:
        raise EvidenceError(f"{shown(folder)}: cannot be listed: {_reason(error)}") from None
    # Spark leaves hidden ones alone, and would take the name of another for a column.
    other = next((one for one in sorted(inner) if one.rpartition("/")[2][0] not in "._"), None)
    if other is not None:
        raise EvidenceError(f"{shown(other)}: is a folder, and a table is files alone: remove it")
    return files


def read_text(spark: SparkSession, uri: str, hint: str = "") -> str:
    """Return a small file's text; ``hint`` follows where there is no such file.

    Raises:
        EvidenceError: when it is not there, no text, or the store does not give it.
    """
    system, path = _at(spark, uri)
    try:
        stream = system.open(path)
        try:
            raw = bytes(_jvm(spark).org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
    except Py4JJavaError as error:
        if "FileNotFound" in str(error.java_exception.getClass().getName()):
            raise EvidenceError(f"{shown(uri)}: no such file{hint}") from None
        raise EvidenceError(f"{shown(uri)}: cannot be read: {_reason(error)}") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise EvidenceError(f"{shown(uri)}: is not UTF-8 text") from None


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write a small file that is there whole or not at all, on a folder, HDFS and an object store.

    Raises:
        EvidenceError: when the store does not take it.
    """
    folder, _, name = uri.rpartition("/")
    try:
        if (here := on_this_machine(uri)) is not None:
            replace_text(here, text)
            return
        (system, path), (_, place) = _at(spark, f"{folder}/.{name}.tmp"), _at(spark, uri)
        stream = system.create(path, True)
        stream.write(bytearray(text, "utf-8"))
        stream.close()
        # What an earlier audit left there: neither HDFS nor an object store renames over it.
        system.delete(place, False)
        if not system.rename(path, place):
            raise EvidenceError(f"{shown(uri)}: cannot be renamed from {shown(str(path))}")
    except (Py4JJavaError, OSError) as error:
        raise EvidenceError(f"{shown(uri)}: cannot be written: {_reason(error)}") from None


def make_folder(spark: SparkSession, uri: str) -> None:
    """Make a folder, if there is none.

    Raises:
        EvidenceError: when the store does not take it.
    """
    system, path = _at(spark, uri)
    try:
        system.mkdirs(path)
    except Py4JJavaError as error:
        raise EvidenceError(f"{shown(uri)}: cannot be made: {_reason(error)}") from None


def footers(spark: SparkSession, some: Iterable[File]) -> Iterator[tuple[File, int, dict[str, str]]]:
    """Give each Parquet file with its rows and column -> type (``int32``, ``binary (STRING)``) by its footer.

    Raises:
        EvidenceError: when a file is not whole.
    """
    jvm, conf = _jvm(spark), _conf(spark)
    # Each dot of a Java name is a question to the JVM: a run may have left hundreds of files.
    path_of, source_of = jvm.org.apache.hadoop.fs.Path, jvm.org.apache.parquet.hadoop.util.HadoopInputFile
    reader_of = jvm.org.apache.parquet.hadoop.ParquetFileReader

    def footer(file: File) -> tuple[File, int, dict[str, str]]:
        try:
            reader = reader_of.open(source_of.fromPath(path_of(file.uri), conf))
            try:
                text = str(reader.getFileMetaData().getSchema().toString())
                rows = int(reader.getRecordCount())
            finally:
                reader.close()
        except Py4JJavaError as error:
            raise EvidenceError(
                f"{shown(file.uri)}: cannot be read as Parquet ({file.size} bytes, {_reason(error)}); it is "
                "damaged or cut off: copy it again, or remove it"
            ) from None
        lines = re.findall(r"^  (?:required|optional|repeated) (\w+) (\S+?)( \(.*\))?;$", text, re.MULTILINE)
        return file, rows, {name: kind + annotation for kind, name, annotation in lines}

    with ThreadPoolExecutor(_FOOTERS) as pool:
        yield from pool.map(footer, some)


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm


def _conf(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()


def _at(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    path = _jvm(spark).org.apache.hadoop.fs.Path(uri)
    try:
        return path.getFileSystem(_conf(spark)), path
    except Py4JJavaError as error:
        raise EvidenceError(f"{shown(uri)}: cannot be opened: {_reason(error)}") from None


def _reason(error: Py4JJavaError | OSError) -> str:
    if isinstance(error, OSError):
        return str(error.strerror)
    return one_line(str(error.java_exception.getMessage()).partition("\n")[0], 240)
