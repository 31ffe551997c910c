package org.attestgate.trustclient;

import java.io.IOException;

/** The app's source of Play Integrity tokens: Google's {@code IntegrityManager} or {@code StandardIntegrityManager}. */
public interface PlayIntegrity {
    /**
     * Requests a token and waits for it.
     *
     * @param nonce what the token is bound to, 43 characters of base64url: for {@code setNonce} or {@code
     *     setRequestHash}
     * @return the encrypted token as Google Play gives it
     * @throws IOException if there is none: the enrolment can continue later
     */
    String token(String nonce) throws IOException;
}
