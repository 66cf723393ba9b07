"""Looks at the certificates and keys that a deploy would copy: the edge of the package."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import itertools
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from kedge.plan.findings import Finding
from kedge.plan.inventory.security import HOST_CHECK, Security
from kedge.plan.plan import Plan, PlannedInstance

_Read = Callable[[Path], bytes]
#: A renewal that takes a request to another department is made in this time.
SOON: Final = datetime.timedelta(days=30)


#: The file with the CA that clients of a listener trust -> the file of that listener, beside it.
_AUTHORITIES: Final = {"listener-ca.pem": "listener.pem", "cluster-ca.pem": "broker.pem"}
_BROKER: Final = "broker.pem"
#: How ``super.users`` of a broker name the brokers by their certificates.
_KNOWN: Final = "User:host:"
#: Its clients may know a balancer by another name than the inventory's.
_BALANCER: Final = "/etc/rest-balancer/"


def look_at_certificates(
    plan: Plan,
    now: datetime.datetime,
    addresses: Mapping[str, str],
    read: _Read = Path.read_bytes,
) -> tuple[Finding, ...]:
    """Return what is wrong with the files of certificates and keys that a plan copies to hosts.

    A finding says host, file and how to mend it, and never what a file holds. A certificate that ends within
    ``SOON`` of ``now`` (with a time zone) is a warning, and one of a balancer that does not name its address,
    or of an instance that does not name where it sends consumers; all else is an error. ``addresses`` are
    those under which hosts are reached; ``read`` returns what a file holds, one that a vault encrypted in
    plain, or raises OSError.
    """
    found: dict[tuple[str, ...], Finding] = {}
    balancers = [
        name
        for services in plan.services.values()
        for instances in services.values()
        for instance in instances
        if (name := _asked_for(instance))
    ]
    for host, services in plan.services.items():
        for service, instances in services.items():
            for instance in instances:
                for finding in _of_instance(
                    f"{host} {service}@{instance.name}", host, instance, now, addresses, balancers, read
                ):
                    # One file may go to several hosts: it is told of once.
                    found.setdefault((finding.rule, finding.message), finding)
    return tuple(found.values())


def look_at_own_files(
    securities: Mapping[str, Security], now: datetime.datetime, read: _Read = Path.read_bytes
) -> tuple[Finding, ...]:
    """Return what is wrong with the files of Kedge's own clients, by the names of their clusters.

    Clients read these files themselves, so that a key has to be in plain text, and for nobody else to read.
    """
    found: list[Finding] = []
    for name, security in securities.items():
        where = f"kafka_clusters.{name}.security"
        if pair := security.client_tls:
            parts = {"certificate": Path(pair.certificate), "key": Path(pair.key)}
            found += [*_look(where, parts, now, read), *_private(where, "key", parts["key"])]
        if kerberos := security.tickets:
            keytab = Path(kerberos.keytab)
            if not keytab.is_file():
                found.append(_error(where, f"keytab {keytab} is no file of this machine", "put it there"))
            found += _private(where, "keytab", keytab)
    return tuple(found)


def look_at_load(
    plan: Plan, load: str, rest: Mapping[str, object], now: datetime.datetime, read: _Read = Path.read_bytes
) -> tuple[Finding, ...]:
    """Return what keeps the REST load (``load`` is its variable) from the plan's listeners with TLS.

    It goes to the balancers, and on to instances that send consumers to themselves.
    """
    where, ca = f"all: {load}.rest.ca", rest.get("ca")
    authority = Path(ca) if isinstance(ca, str) else None
    found = list(_look(where, {"certificate": authority}, now, Path.read_bytes)) if authority else []
    planned = [of for services in plan.services.values() for each in services.values() for of in each]
    balancers = {name for one in planned if (name := _asked_for(one))}
    if rest.get("url") or not balancers or found:
        return tuple(found)
    for instance in planned:
        sent = instance.value("host.name") or urlsplit(instance.value("advertised.listeners")).hostname
        if _asked_for(instance) or (rest.get("consumers") != 0 and sent and sent not in balancers):
            for setting in instance.settings:
                if setting.copied and setting.key == "certificate" and setting.file.endswith("/listener.pem"):
                    found += _signed(where, Path(setting.value), authority, now, read)
    return tuple(dict.fromkeys(found))  # balancers may share one


def _private(where: str, what: str, path: Path) -> Iterator[Finding]:
    """Find a file that is there, and not for its owner alone."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            message = f"{what} {path} has mode {mode:04o}: others of this machine may read or replace it"
            yield _error(where, message, f"chmod 0600 {path}")


def _of_instance(
    where: str,
    host: str,
    instance: PlannedInstance,
    now: datetime.datetime,
    addresses: Mapping[str, str],
    balancers: Sequence[str],
    read: _Read,
) -> Iterator[Finding]:
    files: dict[str, dict[str, Path]] = {}
    for setting in instance.settings:
        if setting.copied:
            own = files.setdefault(PurePosixPath(setting.file).name, {})
            own[setting.key] = Path(setting.value)
    for parts in files.values():
        yield from _look(where, parts, now, read)
    for authority, listener in _AUTHORITIES.items():
        if authority in files and listener in files:
            certificate, trusted = files[listener]["certificate"], files[authority]["certificate"]
            yield from _signed(where, certificate, trusted, now, read)
    for listener in _AUTHORITIES.values():
        if listener in files:
            certificate = files[listener]["certificate"]
            lenient = any(s.file.startswith(_BALANCER) for s in instance.settings)
            address = _asked_for(instance) or addresses[host]
            yield from _named(where, certificate, host, address, read, lenient=lenient)
            yield from _asked(where, certificate, instance, balancers, read)
    if _BROKER in files:
        yield from _known_broker(where, files[_BROKER]["certificate"], instance.value("super.users"), read)


def _signed(
    where: str, path: Path, authority: Path | None, now: datetime.datetime, read: _Read
) -> Iterator[Finding]:
    """Find a certificate that no client would take: it trusts another CA, or without one this machine's."""
    chain = _certificates(path, read)
    authorities = [
        one for file in ([authority] if authority else _of_machine()) for one in _certificates(file, read)
    ]
    # Where none is valid, that is the finding.
    trusted = [one for one in authorities if _valid(one, now)] or authorities
    if not chain or (authority and not trusted):
        return  # what cannot be read has a finding of its own
    whole = all(_issued(one, by) for one, by in itertools.pairwise(chain))
    if not whole or not (chain[-1] in trusted or any(_issued(chain[-1], by) for by in trusted)):
        yield _error(
            where,
            f"certificate {path} is not signed by "
            + (f"the CA in {authority}" if authority else "a CA that this machine trusts by itself"),
            "name the CA that signed it, and put what is between them after the certificate",
        )


def _of_machine() -> list[Path]:
    """Return the files that the load's client, httpx, trusts where it is given no CA."""
    # Of a clone; the command alone is never asked.
    import certifi  # noqa: PLC0415

    folder, file = os.environ.get("SSL_CERT_DIR"), os.environ.get("SSL_CERT_FILE")
    if folder and not file:
        return [one for one in Path(folder).glob("*") if one.is_file()]
    return [Path(file or certifi.where())]


def _issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _named(
    where: str, path: Path, host: str, address: str, read: _Read, *, lenient: bool
) -> Iterator[Finding]:
    """Find a certificate of another host."""
    chain = _certificates(path, read)
    if not chain:
        return
    names = _names(chain[0])
    if _covers(names, address):
        return
    message = f"certificate {path} names {', '.join(names) or 'nobody'}, and {host} is reached at {address}"
    if lenient:
        fix = "see that it names what clients call the balancer"
        yield Finding("warning", "certificates", where, message, fix)
    else:
        yield _error(
            where, message, f"have it issued for {address} (subject alternative name), or name another"
        )


def _asked_for(instance: PlannedInstance) -> str:
    """Return what clients call a balancer; empty of anything else."""
    return instance.value("address").rpartition(":")[0].strip("[]")


def _asked(
    where: str, path: Path, instance: PlannedInstance, balancers: Sequence[str], read: _Read
) -> Iterator[Finding]:
    """Find names of which a request to a REST instance asks for one, and its certificate has not."""
    chain = _certificates(path, read)
    if not chain:
        return
    names = _names(chain[0])
    has = f"certificate {path} names {', '.join(names) or 'nobody'}, and not"
    own = {setting.key: setting.value for setting in instance.settings if setting.by == "person"}
    checked = any(s.key == HOST_CHECK and s.rule == "rest.host_check" for s in instance.settings)
    if checked and own.get(HOST_CHECK, "false").lower() == "true":
        for name in dict.fromkeys(balancers):
            if not _covers(names, name):
                yield _error(
                    where,
                    f"{has} {name}, which clients of the balancer ask for: with {HOST_CHECK} the instance "
                    "answers 400 to them",
                    f"have it issued for {name} as well, or take {HOST_CHECK} out of kafka_rest_settings",
                )
    for key in ("host.name", "advertised.listeners"):
        sent = urlsplit(own[key]).hostname if "://" in own.get(key, "") else own.get(key)
        if sent and sent not in balancers and not _covers(names, sent):
            message = f"{has} {sent}, to which {key} sends consumers"
            yield Finding("warning", "certificates", where, message, f"have it issued for {sent} as well")


def _known_broker(where: str, path: Path, super_users: str, read: _Read) -> Iterator[Finding]:
    """Find a certificate by which the other brokers would not know this one."""
    known = [user.removeprefix(_KNOWN) for user in super_users.split(";") if user.startswith(_KNOWN)]
    chain = _certificates(path, read)
    if not chain or not known:
        return
    names = [str(name.value) for name in chain[0].subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    if not set(names) & set(known):
        has = ", ".join(names) or "nobody"
        yield _error(
            where,
            f"certificate {path} has the common name {has}, and the cluster's brokers are known as "
            f"{', '.join(known)}",
            "set kafka_broker_certificate_name of the host to it, or have one issued for the host's name",
        )


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    ]


def _covers(names: Sequence[str], address: str) -> bool:
    try:
        return str(ipaddress.ip_address(address)) in names
    except ValueError:
        wild = f"*.{address.partition('.')[2]}"
        return address.lower() in (own := [name.lower() for name in names]) or wild.lower() in own


def _certificates(path: Path, read: _Read) -> list[x509.Certificate]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some authorities of a distribution have serial numbers of 0
        try:
            return x509.load_pem_x509_certificates(read(path))
        except (OSError, ValueError):
            return []


def _look(where: str, parts: Mapping[str, Path], now: datetime.datetime, read: _Read) -> Iterable[Finding]:
    chain = key = None
    if path := parts.get("certificate"):
        try:
            chain = x509.load_pem_x509_certificates(read(path))
        except OSError as error:
            yield _error(
                where, f"certificate {path} cannot be read: {error.strerror or error}", "put it there"
            )
        except ValueError:
            yield _error(
                where, f"{path} holds no certificate in PEM format", "write it as PEM, its chain after it"
            )
        else:
            bundle = "key" not in parts and any(_valid(one, now) for one in chain)
            yield from (_authorities if bundle else _dates)(where, path, chain, now)
    if path := parts.get("key"):
        try:
            key = load_pem_private_key(read(path), None).public_key()
        except OSError as error:
            yield _error(where, f"key {path} cannot be read: {error.strerror or error}", "put it there")
        except (ValueError, TypeError):
            yield _error(
                where, f"{path} holds no private key in PEM format without a passphrase", "write it as such"
            )
    if chain and key and _bytes(chain[0].public_key()) != _bytes(key):
        yield _error(
            where,
            f"key {parts['key']} is not the one of certificate {parts['certificate']}",
            "name the pair that belongs together",
        )


def _dates(
    where: str, path: Path, chain: Iterable[x509.Certificate], now: datetime.datetime
) -> Iterable[Finding]:
    for certificate in chain:
        ends, begins = certificate.not_valid_after_utc, certificate.not_valid_before_utc
        if ends <= now:
            yield _error(where, f"certificate {path} expired on {ends:%Y-%m-%d}", "renew it")
        elif begins > now:
            yield _error(
                where,
                f"certificate {path} is valid from {begins:%Y-%m-%d %H:%M} UTC",
                "set the clock, or wait",
            )
        elif ends - now < SOON:
            message = f"certificate {path} expires on {ends:%Y-%m-%d}, in {(ends - now).days} days"
            yield Finding("warning", "certificates", where, message, "renew it")


def _authorities(
    where: str, path: Path, bundle: Sequence[x509.Certificate], now: datetime.datetime
) -> Iterable[Finding]:
    """Note what a bundle of authorities, as a distribution has one, holds in vain: it serves all the same."""
    valid = [one for one in bundle if _valid(one, now)]
    if len(valid) < len(bundle):
        over = f"{len(bundle) - len(valid)} of the {len(bundle)} authorities in {path}"
        message = f"{over} have expired or are not valid yet: nothing that they signed is trusted"
        yield Finding("note", "certificates", where, message, "")
    if all(one.not_valid_after_utc - now < SOON for one in valid):
        yield from _dates(where, path, valid, now)


def _valid(certificate: x509.Certificate, now: datetime.datetime) -> bool:
    return certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc


def _bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _error(where: str, message: str, fix: str) -> Finding:
    return Finding("error", "certificates", where, message, fix)
