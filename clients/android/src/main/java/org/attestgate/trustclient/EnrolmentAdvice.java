package org.attestgate.trustclient;

/** A remedy for a refusal. */
public enum EnrolmentAdvice {
    /** Send the same request with a new nonce. */
    NEW_NONCE,
    /** Make a new hardware key and its attestation, because the service does not know this one. */
    NEW_HARDWARE_KEY,
    /** Send the same request later. */
    LATER,
    /** Send the same request after an operator has approved the phone. */
    AWAIT_APPROVAL,
    /** Install a newer version of the app or the system. A refused attestation was dropped, as below. */
    UPDATE,
    /**
     * Install a newer version of the system. The record was reset, so the next enrolment makes a new hardware key,
     * whose attestation states the newer version.
     */
    UPDATE_SYSTEM,
    /** Stop, because neither the app nor its user can help. The client is faulty, or the phone is not permitted. */
    GIVE_UP
}
