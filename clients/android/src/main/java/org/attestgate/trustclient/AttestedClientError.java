package org.attestgate.trustclient;

import java.io.IOException;

/** Thrown if the gateway gave no challenge that this key can answer. */
public final class AttestedClientError extends IOException {
    private static final long serialVersionUID = 1;

    private final transient GatewayAnswer answer;

    AttestedClientError(GatewayAnswer answer) {
        super("no challenge: " + answer);
        this.answer = answer;
    }

    /** The gateway's answer to the request for a challenge. Its denial states the reason. */
    public GatewayAnswer answer() {
        return answer;
    }
}
