package org.attestgate.trustclient;

import java.io.ByteArrayInputStream;
import java.security.cert.CertificateException;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The client certificate of a bound key. */
public final class EnrolledCertificate {
    private final List<X509Certificate> chain;
    private final long expiresAt;

    private EnrolledCertificate(List<X509Certificate> chain, long expiresAt) {
        this.chain = Collections.unmodifiableList(chain);
        this.expiresAt = expiresAt;
    }

    /**
     * Parses a chain.
     *
     * @param chain the certificates in DER, leaf first
     * @return null if a certificate is malformed
     */
    static EnrolledCertificate parse(List<byte[]> chain, long expiresAt) {
        List<X509Certificate> certificates = new ArrayList<>();
        try {
            CertificateFactory factory = CertificateFactory.getInstance("X.509");
            for (byte[] certificate : chain) {
                certificates.add(
                    (X509Certificate) factory.generateCertificate(new ByteArrayInputStream(certificate)));
            }
        } catch (CertificateException malformed) {
            return null;
        }
        return new EnrolledCertificate(certificates, expiresAt);
    }

    /** The certificates: the leaf first, then the authorities above it. */
    public List<X509Certificate> chain() {
        return chain;
    }

    /** The earliest expiry in the chain, in seconds since 1970. Renew the certificate well before: enrol again. */
    public long expiresAt() {
        return expiresAt;
    }

    /** Returns whether the leaf certifies the key with this point. */
    boolean isFor(byte[] point) {
        return Arrays.equals(P256.point(chain.get(0).getPublicKey()), point);
    }
}
