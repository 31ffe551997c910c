package org.attestgate.trustclient;

/** An enrolled phone: the key for proofs and the certificate for TLS. */
public final class EnrolledPhone {
    private final HardwareKey hardwareKey;
    private final ClientIdentity identity;
    private final long expiresAt;

    EnrolledPhone(HardwareKey hardwareKey, ClientIdentity identity, long expiresAt) {
        this.hardwareKey = hardwareKey;
        this.identity = identity;
        this.expiresAt = expiresAt;
    }

    public HardwareKey hardwareKey() {
        return hardwareKey;
    }

    public ClientIdentity identity() {
        return identity;
    }

    /** The end of the certificate, in seconds since 1970. */
    public long expiresAt() {
        return expiresAt;
    }
}
