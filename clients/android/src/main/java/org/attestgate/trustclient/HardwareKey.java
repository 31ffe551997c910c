package org.attestgate.trustclient;

import java.io.IOException;

/** The attested key of this phone with its counter. Any number of threads may use it. */
public final class HardwareKey {
    private final Attestor attestor;
    private final String alias;
    private final ProofCounter counter;
    private final KeyID keyID;

    /**
     * Creates a value for a key that exists.
     *
     * @param counter the counter of this key. Two counters for one key would give out each value twice.
     */
    public HardwareKey(Attestor attestor, String alias, ProofCounter counter) throws AttestorFault {
        this.attestor = attestor;
        this.alias = alias;
        this.counter = counter;
        keyID = KeyID.of(attestor.point(alias));
    }

    public KeyID keyID() {
        return keyID;
    }

    /** Returns the next counter. It is stored durably before this method returns. */
    public long nextCounter() throws IOException {
        return counter.next();
    }

    /** Returns the ECDSA signature over the SHA-256 of the message, in DER. */
    public byte[] signature(byte[] message) throws AttestorFault {
        return attestor.signature(alias, message);
    }
}
