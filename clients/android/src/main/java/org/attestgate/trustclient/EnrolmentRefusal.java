package org.attestgate.trustclient;

/** The service's refusal: {@code {"error", "error_description"}}. */
public final class EnrolmentRefusal {
    /** The codes of refusals. */
    public enum Code {
        BAD_REQUEST("bad_request"),
        INVALID_REQUEST("invalid_request"),
        INTEGRITY_CHECK("integrity_check_error"),
        OS_OUTDATED("os_outdated"),
        NOT_FOUND("not_found"),
        VALIDATION("validation_error"),
        SERVER("server_error"),
        TEMPORARILY_UNAVAILABLE("temporarily_unavailable");

        private final String text;

        Code(String text) {
            this.text = text;
        }

        /** Returns the code with this text, or null. */
        static Code of(String text) {
            for (Code code : values()) if (code.text.equals(text)) return code;
            return null;
        }
    }

    private final int status;
    private final Code code;
    private final String denial;
    private final Long retryAfter;
    private final String explanation;

    EnrolmentRefusal(int status, Code code, String denial, Long retryAfter, String explanation) {
        this.status = status;
        this.code = code;
        this.denial = denial;
        this.retryAfter = retryAfter;
        this.explanation = explanation;
    }

    public int status() {
        return status;
    }

    /** The code. Null if the answer is unreadable or not from this service, but from a proxy for example. */
    public Code code() {
        return code;
    }

    /**
     * The denial code, such as {@code device_unknown}, of the listener for enrolled devices, which refuses as the
     * gateway. Null without one.
     */
    public String denial() {
        return denial;
    }

    /** The number of seconds after which the same request may succeed. Null if the service does not say. */
    public Long retryAfter() {
        return retryAfter;
    }

    /** {@code error_description}: a text for the app's developer, not for its user. Null without one. */
    public String explanation() {
        return explanation;
    }

    /** Returns the remedy according to the code. If the same advice returns after it was followed, give up. */
    public EnrolmentAdvice advice(EnrolmentRequest.Endpoint endpoint) {
        // The request arrived too slowly, whatever the code says.
        if (status == 408) return EnrolmentAdvice.LATER;
        // The answer is from a proxy, for example, not from the service.
        if (code == null) return status == 429 || status >= 500 ? EnrolmentAdvice.LATER : EnrolmentAdvice.GIVE_UP;
        boolean isBinding = endpoint == EnrolmentRequest.Endpoint.KEY_BINDING;
        switch (code) {
            case SERVER: case TEMPORARILY_UNAVAILABLE: return EnrolmentAdvice.LATER;
            // The service compares the versions in the attestation. After an update of app or system, only a new
            // attestation states the new version.
            case INTEGRITY_CHECK: return isBinding ? EnrolmentAdvice.NEW_HARDWARE_KEY : EnrolmentAdvice.UPDATE;
            case OS_OUTDATED: return isBinding ? EnrolmentAdvice.NEW_HARDWARE_KEY : EnrolmentAdvice.UPDATE_SYSTEM;
            case NOT_FOUND: return isBinding ? EnrolmentAdvice.NEW_HARDWARE_KEY : EnrolmentAdvice.GIVE_UP;
            case INVALID_REQUEST:
                // If waiting helps, the request was right, and an operator must approve the phone.
                if (isBinding) return retryAfter == null ? EnrolmentAdvice.NEW_NONCE : EnrolmentAdvice.AWAIT_APPROVAL;
                // An attestation is for one nonce. Without the nonce, it is lost.
                return endpoint == EnrolmentRequest.Endpoint.INITIALIZATION
                    ? EnrolmentAdvice.NEW_HARDWARE_KEY : EnrolmentAdvice.GIVE_UP;
            default: return EnrolmentAdvice.GIVE_UP;
        }
    }

    @Override
    public String toString() {
        String name = code == null ? denial : code.text;
        return status + (name == null ? "" : " " + name) + (explanation == null ? "" : ": " + explanation);
    }
}
