package org.attestgate.trustclient;

/** The reason why a request cannot have a proof. It is an error of the caller. */
public final class RequestFault extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    public enum Reason {
        /** The text is not a field name (RFC 9110, section 5.1). */
        FIELD_NAME,
        /** The proof itself writes the field. */
        FIELD_RESERVED,
        /** The digest of the content does not have 32 bytes. */
        DIGEST_LENGTH
    }

    private final Reason reason;

    RequestFault(Reason reason) {
        super(reason.name());
        this.reason = reason;
    }

    public Reason reason() {
        return reason;
    }
}
