package org.attestgate.trustclient;

import java.net.Socket;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.cert.X509Certificate;
import java.util.List;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;
import javax.net.ssl.X509TrustManager;

/** The client certificate and its key, for TLS. The key stays in the keystore. */
public final class ClientIdentity {
    private final PrivateKey key;
    private final X509Certificate[] chain;

    ClientIdentity(PrivateKey key, List<X509Certificate> chain) {
        this.key = key;
        this.chain = chain.toArray(new X509Certificate[0]);
    }

    /** Returns a context that presents the certificate and trusts the system's authorities. */
    public SSLContext sslContext() throws GeneralSecurityException {
        return sslContext(null);
    }

    /**
     * Returns a context that presents the certificate. Connections keep it: make a new context after each enrolment.
     *
     * @param trust decides which servers are trusted. Null for the system's authorities.
     */
    public SSLContext sslContext(TrustManager[] trust) throws GeneralSecurityException {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(new KeyManager[] {new OneKeyManager()}, trust, null);
        return context;
    }

    /** Returns trust in the system's authorities, for libraries that ask for it. */
    public static X509TrustManager systemTrust() throws GeneralSecurityException {
        TrustManagerFactory factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init((KeyStore) null);
        for (TrustManager manager : factory.getTrustManagers()) {
            if (manager instanceof X509TrustManager) return (X509TrustManager) manager;
        }
        throw new GeneralSecurityException("the system has no authorities");
    }

    /** Presents the one certificate, whatever authorities the server names. */
    private final class OneKeyManager extends X509ExtendedKeyManager {
        private static final String ALIAS = "attestgate";

        @Override
        public String chooseClientAlias(String[] keyTypes, Principal[] issuers, Socket socket) {
            return ALIAS;
        }

        @Override
        public String chooseEngineClientAlias(String[] keyTypes, Principal[] issuers, SSLEngine engine) {
            return ALIAS;
        }

        @Override
        public String[] getClientAliases(String keyType, Principal[] issuers) {
            return new String[] {ALIAS};
        }

        @Override
        public X509Certificate[] getCertificateChain(String alias) {
            return chain.clone();
        }

        @Override
        public PrivateKey getPrivateKey(String alias) {
            return key;
        }

        @Override
        public String[] getServerAliases(String keyType, Principal[] issuers) {
            return null;
        }

        @Override
        public String chooseServerAlias(String keyType, Principal[] issuers, Socket socket) {
            return null;
        }
    }
}
