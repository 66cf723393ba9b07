package io.kedge.sandbox;

import java.io.IOException;
import java.security.GeneralSecurityException;
import org.eclipse.jetty.security.Constraint;
import org.eclipse.jetty.security.SecurityHandler;
import org.eclipse.jetty.security.authentication.BasicAuthenticator;
import org.eclipse.jetty.security.jaas.JAASLoginService;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.util.ssl.SslContextFactory;

/** Who may come in: TLS of the listeners and basic authentication, under the keys of the real proxy. */
final class Doors {
  private Doors() {}

  /** TLS as the file says; throws with the file's name when a store cannot be used. */
  static SslContextFactory.Server tls(ProxyConfig.Tls tls) throws IOException, GeneralSecurityException {
    SslContextFactory.Server factory = new SslContextFactory.Server();
    factory.setKeyStore(PemStore.ofKey(tls.keystore()));
    factory.setKeyStorePassword("");
    if (tls.trust().isPresent()) {
      factory.setTrustStore(PemStore.ofTrust(tls.trust().get()));
    }
    factory.setWantClientAuth(tls.clients() == ProxyConfig.ClientAuthentication.REQUESTED);
    factory.setNeedClientAuth(tls.clients() == ProxyConfig.ClientAuthentication.REQUIRED);
    return factory;
  }

  /** The handler behind a login with the users of the JAAS section that the realm names. */
  static Handler login(ProxyConfig.Login login, Handler inside) {
    JAASLoginService service = new JAASLoginService(login.realm());
    service.setLoginModuleName(login.realm());
    SecurityHandler.PathMapped door = new SecurityHandler.PathMapped();
    door.setRealmName(login.realm());
    door.setLoginService(service);
    door.setAuthenticator(new BasicAuthenticator());
    boolean anyone = login.roles().contains("*");
    door.put(
        "/*",
        anyone
            ? Constraint.ANY_USER
            : new Constraint.Builder()
                .roles(login.roles().toArray(String[]::new))
                .authorization(Constraint.Authorization.SPECIFIC_ROLE)
                .build());
    door.setHandler(inside);
    return door;
  }
}
