package org.attestgate.trustclient;

import java.util.List;

/**
 * A proof before its signature, for callers that sign themselves. Its counter makes it unique, so a draft serves one
 * signature: {@code SHA256withECDSA} over {@link #signatureBase}.
 */
public final class ProofDraft {
    static final String TAG = "attestgate-request";
    static final String ALGORITHM = "ecdsa-p256-sha256";

    private final long counter;
    private final String contentDigest;
    private final String parameters;
    private final String signatureBase;

    /**
     * Creates a draft.
     *
     * @param created the present time by the gateway's clock if known, in seconds since 1970
     * @param counter a value of the key's {@link ProofCounter}
     * @throws ProofFault if the value of a component cannot be signed
     */
    public ProofDraft(
        AttestedRequest request, ReceivedChallenge challenge, KeyID keyID, long created, long counter) {
        this.counter = counter;
        contentDigest = request.contentDigest();
        List<String> components = request.components(challenge.request().components());
        parameters = "(\"" + String.join("\" \"", components) + "\");created=" + created
            + ";keyid=\"" + keyID.base64() + "\";nonce=\"" + challenge.request().nonce()
            + "\";alg=\"" + ALGORITHM + "\";tag=\"" + TAG + "\"";
        signatureBase = request.signatureBase(components, parameters, counter);
    }

    /** The bytes to sign: the signature base (RFC 9421, section 2.5). */
    public byte[] signatureBase() {
        return Bytes.utf8(signatureBase);
    }

    /**
     * Returns the fields of the proof.
     *
     * @param signature the hardware key's signature in DER, as {@link java.security.Signature} returns it
     * @throws IllegalArgumentException if the signature is malformed
     */
    public ProofFields fields(byte[] signature) {
        byte[] fixedWidth = P256.fixedWidth(signature);
        if (fixedWidth == null) throw new IllegalArgumentException("no ECDSA signature of P-256 in DER");
        return new ProofFields(
            contentDigest, Long.toString(counter), "attest=" + parameters, "attest=:" + Bytes.base64(fixedWidth) + ":");
    }
}
