package org.attestgate.trustclient;

/** A challenge of the gateway with its time of arrival. It serves many proofs while it is fresh. */
public final class ReceivedChallenge {
    private final AcceptSignature request;
    private final long receivedAt;

    ReceivedChallenge(AcceptSignature request, long receivedAt) {
        this.request = request;
        this.receivedAt = receivedAt;
    }

    /** The requested components, with the challenge in {@code nonce}. */
    public AcceptSignature request() {
        return request;
    }

    /** Returns the age in seconds. It is negative if the clock was set back. */
    public long age(long now) {
        return now - receivedAt;
    }
}
