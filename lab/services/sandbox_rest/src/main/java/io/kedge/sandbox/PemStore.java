package io.kedge.sandbox;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Reads PEM files into the stores that Java's TLS wants; messages name the file. */
final class PemStore {
  private static final Pattern BLOCK =
      Pattern.compile("-----BEGIN ([A-Z ]+)-----\\s([A-Za-z0-9+/=\\s]+)-----END \\1-----");
  private static final char[] NO_PASSWORD = new char[0];
  private static final List<String> KEY_KINDS = List.of("EC", "RSA", "Ed25519");

  private PemStore() {}

  /** A store with the key (PKCS #8, not encrypted) and the chain of one file. */
  static KeyStore ofKey(Path file) throws IOException, GeneralSecurityException {
    List<byte[]> keys = blocks(file, "PRIVATE KEY");
    Certificate[] chain = certificates(file).toArray(Certificate[]::new);
    if (keys.size() != 1 || chain.length == 0) {
      throw new IOException(file + ": holds " + keys.size() + " keys (PRIVATE KEY) and " + chain.length
          + " certificates; one key and its chain are needed");
    }
    KeyStore store = empty();
    store.setKeyEntry("listener", key(file, keys.get(0)), NO_PASSWORD, chain);
    return store;
  }

  /** A store that trusts the certificates of a file. */
  static KeyStore ofTrust(Path file) throws IOException, GeneralSecurityException {
    KeyStore store = empty();
    for (Certificate each : certificates(file)) {
      store.setCertificateEntry("ca-" + store.size(), each);
    }
    return store;
  }

  private static PrivateKey key(Path file, byte[] encoded) throws IOException, GeneralSecurityException {
    for (String kind : KEY_KINDS) {
      try {
        return KeyFactory.getInstance(kind).generatePrivate(new PKCS8EncodedKeySpec(encoded));
      } catch (InvalidKeySpecException e) {
        continue;
      }
    }
    throw new IOException(file + ": its key is of none of the kinds " + KEY_KINDS);
  }

  private static List<Certificate> certificates(Path file) throws IOException, GeneralSecurityException {
    CertificateFactory factory = CertificateFactory.getInstance("X.509");
    List<Certificate> found = new ArrayList<>();
    for (byte[] block : blocks(file, "CERTIFICATE")) {
      found.add(factory.generateCertificate(new ByteArrayInputStream(block)));
    }
    return found;
  }

  private static List<byte[]> blocks(Path file, String kind) throws IOException {
    List<byte[]> found = new ArrayList<>();
    Matcher matcher = BLOCK.matcher(Files.readString(file, StandardCharsets.US_ASCII));
    while (matcher.find()) {
      if (matcher.group(1).equals(kind)) {
        found.add(Base64.getMimeDecoder().decode(matcher.group(2)));
      }
    }
    return found;
  }

  private static KeyStore empty() throws IOException, GeneralSecurityException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, null);
    return store;
  }
}
