package org.attestgate.trustclient;

/** The posture that the service has recorded. */
public final class AttestedPosture {
    private final String json;
    private final String deviceToken;

    AttestedPosture(String json, String deviceToken) {
        this.json = json;
        this.deviceToken = deviceToken;
    }

    /** The answer: a JSON object whose member {@code posture} has the facts. */
    public String json() {
        return json;
    }

    /** A token about this posture for other services, or null if the service issues none. */
    public String deviceToken() {
        return deviceToken;
    }
}
