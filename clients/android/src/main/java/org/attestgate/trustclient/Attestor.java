package org.attestgate.trustclient;

import java.security.PrivateKey;
import java.util.List;

/**
 * The platform's keystore. It makes P-256 keys that never leave it, and attests them.
 *
 * <p>Keys are named by an alias. Any number of threads may use an attestor.
 */
public interface Attestor {
    /** The purpose of a key, which decides what its private key may sign. */
    enum Purpose {
        /** Messages, hashed with SHA-256 by the keystore. */
        PROOFS,
        /** TLS handshakes too: the platform's TLS library hashes them itself. */
        TLS
    }

    /**
     * Generates a key, in place of any other with this alias.
     *
     * @param challenge the attestation challenge, at most 128 bytes, or null for a key without an attestation
     * @return the certificates of the key in DER, leaf first. Without a challenge they attest nothing.
     */
    List<byte[]> generateKey(String alias, Purpose purpose, byte[] challenge) throws AttestorFault;

    /**
     * Returns the public key: the uncompressed point, 65 bytes.
     *
     * @throws AttestorFault {@code KEY_LOST} if there is no such key, as in the methods below
     */
    byte[] point(String alias) throws AttestorFault;

    /** Returns the ECDSA signature over the SHA-256 of the message, in DER. */
    byte[] signature(String alias, byte[] message) throws AttestorFault;

    /** Returns the private key of purpose {@code TLS}, of which the keystore gives out nothing but signatures. */
    PrivateKey privateKey(String alias) throws AttestorFault;

    /** Deletes a key. It does nothing if there is no such key. */
    void deleteKey(String alias) throws AttestorFault;
}
