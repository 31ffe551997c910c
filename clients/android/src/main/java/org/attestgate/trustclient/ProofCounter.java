package org.attestgate.trustclient;

import java.io.IOException;

/** The counter of a hardware key. A gateway accepts each value once. */
public interface ProofCounter {
    /** The highest value. */
    long LIMIT = 0xffff_ffffL;

    /**
     * Returns a value that no call has returned before, also not before the app or the phone was stopped. Later calls
     * return higher values.
     *
     * @throws AttestorFault {@code KEY_LOST} if all values were used, or the stored one cannot be read
     */
    long next() throws IOException;
}
