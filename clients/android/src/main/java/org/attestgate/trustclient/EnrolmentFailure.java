package org.attestgate.trustclient;

import java.io.IOException;

/**
 * The reason why an enrolment ended without a certificate, or a {@link DeviceClient} without an answer. The record
 * keeps the progress, and the next enrolment continues there.
 */
public final class EnrolmentFailure extends IOException {
    private static final long serialVersionUID = 1;

    public enum Reason {
        /** The service refused: see {@link #refusal} and {@link #advice}. */
        REFUSED,
        /** The platform failed: see {@link #fault}. {@code KEY_LOST} means that it also failed for a new key. */
        ATTESTOR,
        /** The service's answer is neither a refusal nor well-formed. */
        ANSWER_UNREADABLE,
        /** The certificate is for another key. */
        CERTIFICATE_FOREIGN,
        /** A signature of the keystore is malformed. */
        SIGNATURE_UNREADABLE,
        /** The admission token is not a JWT, or too long. */
        ADMISSION_TOKEN_MALFORMED,
        /** The Play Integrity token is not a JWE, or too long. */
        INTEGRITY_TOKEN_MALFORMED,
        /** The signals are not a JSON object, or too long. */
        SIGNALS_MALFORMED,
        /** The id is not one of a list of devices. */
        INSTANCE_MALFORMED
    }

    private final Reason reason;
    private final transient EnrolmentRefusal refusal;
    private final EnrolmentAdvice advice;

    private EnrolmentFailure(
        Reason reason, String message, Throwable cause, EnrolmentRefusal refusal, EnrolmentAdvice advice) {
        super(message, cause);
        this.reason = reason;
        this.refusal = refusal;
        this.advice = advice;
    }

    EnrolmentFailure(Reason reason) {
        this(reason, reason.name(), null, null, null);
    }

    EnrolmentFailure(EnrolmentRefusal refusal, EnrolmentAdvice advice) {
        this(Reason.REFUSED, refusal + " (" + advice + ")", null, refusal, advice);
    }

    EnrolmentFailure(AttestorFault fault) {
        this(Reason.ATTESTOR, "the keystore: " + fault.reason(), fault, null, null);
    }

    public Reason reason() {
        return reason;
    }

    /** The refusal of the service, or null. */
    public EnrolmentRefusal refusal() {
        return refusal;
    }

    /**
     * The remedy for the refusal, or null. Never {@code NEW_NONCE} or {@code NEW_HARDWARE_KEY}, because these were
     * tried.
     */
    public EnrolmentAdvice advice() {
        return advice;
    }

    /** The failure of the platform, or null. */
    public AttestorFault fault() {
        return getCause() instanceof AttestorFault ? (AttestorFault) getCause() : null;
    }
}
