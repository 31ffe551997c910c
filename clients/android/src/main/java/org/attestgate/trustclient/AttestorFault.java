package org.attestgate.trustclient;

import java.io.IOException;

/** The reason why the platform's keystore failed. */
public final class AttestorFault extends IOException {
    private static final long serialVersionUID = 1;

    public enum Reason {
        /** The key does not exist any more, or its counter was lost or used up. A new one is needed. */
        KEY_LOST,
        /** The keystore, or the service that provides it with attestation keys, failed. Retry later. */
        UNAVAILABLE,
        /** This phone cannot attest keys. */
        UNSUPPORTED
    }

    private final Reason reason;

    public AttestorFault(Reason reason, Throwable cause) {
        super(reason.name(), cause);
        this.reason = reason;
    }

    public AttestorFault(Reason reason) {
        this(reason, null);
    }

    public Reason reason() {
        return reason;
    }
}
