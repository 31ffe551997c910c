package org.attestgate.trustclient;

/** The form of the challenge with which the hardware key is attested: {@code client_data} of the app at the gateway. */
public enum ClientDataForm {
    /** SHA-256(UTF-8(nonce) || UTF-8(hardware key tag)): {@code nonce-and-tag}. */
    NONCE_AND_TAG,
    /** UTF-8(nonce): {@code nonce}. */
    NONCE,
    /**
     * SHA-256(nonce bytes || "KEYPAIR_MTLS"): {@code dsr}. The attested key is also the certificate's key, which must
     * be bound first.
     */
    DSR;

    /** Returns the attestation challenge of the hardware key. */
    byte[] challenge(EnrolmentNonce nonce, String tag) {
        switch (this) {
            case NONCE: return Bytes.utf8(nonce.text);
            case DSR: return Bytes.sha256(nonce.bytes, Bytes.utf8("KEYPAIR_MTLS"));
            default: return certificateKeyChallenge(nonce, tag);
        }
    }

    /** Returns the attestation challenge of a certificate key, which is the same for all apps. */
    static byte[] certificateKeyChallenge(EnrolmentNonce nonce, String tag) {
        return Bytes.sha256(Bytes.utf8(nonce.text), Bytes.utf8(tag));
    }
}
