package org.attestgate.trustclient;

/**
 * The state of a client between requests: the newest challenge and the offset of its clock. Times are seconds since
 * 1970 by this device's clock, unless stated otherwise. Any number of threads may use it.
 */
public final class ProofSession {
    /** The path at which a gateway gives a challenge to a client with a certificate. */
    public static final String CHALLENGE_PATH = "/.well-known/attestgate/challenge";
    /**
     * The age in seconds up to which a challenge is used without requesting a new one. Gateways accept 300 s by
     * default. If one refuses the challenge, that costs one more request.
     */
    public static final long REFRESH_AGE = 240;

    private final KeyID keyID;
    private ReceivedChallenge challenge;
    private long clockOffset;

    public ProofSession(KeyID keyID) {
        this.keyID = keyID;
    }

    public KeyID keyID() {
        return keyID;
    }

    /** The newest challenge, which may be too old, or null. */
    public synchronized ReceivedChallenge challenge() {
        return challenge;
    }

    /** The gateway's clock minus this device's clock, in seconds. */
    public synchronized long clockOffset() {
        return clockOffset;
    }

    /**
     * Stores the new challenge of a response, if it has one.
     *
     * @return whether the response has a challenge that this key can answer
     */
    public synchronized boolean note(GatewayAnswer answer, long now) {
        if (answer.challenge() == null || !answer.challenge().isFor(keyID)) return false;
        challenge = new ReceivedChallenge(answer.challenge(), now);
        return true;
    }

    /** Returns the challenge for the next proof, or null if a new one must be fetched. */
    public synchronized ReceivedChallenge usableChallenge(long now) {
        if (challenge == null) return null;
        long age = challenge.age(now);
        return age >= 0 && age < REFRESH_AGE ? challenge : null;
    }

    /** Adopts the gateway's time. Only for a gateway that called the proof stale over an authenticated connection. */
    synchronized void correctClock(long date, long now) {
        clockOffset = date - now;
    }

    /** Returns the time of creation for a proof made now, by the gateway's clock. */
    public synchronized long created(long now) {
        return Math.max(0, now + clockOffset);
    }
}
