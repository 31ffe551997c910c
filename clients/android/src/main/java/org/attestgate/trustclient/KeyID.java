package org.attestgate.trustclient;

import java.util.Arrays;

/** The name of a P-256 key: SHA-256 of its uncompressed point. */
public final class KeyID {
    private final byte[] digest;

    private KeyID(byte[] digest) {
        this.digest = digest;
    }

    /** Returns the id of the key with this point of 65 bytes. */
    public static KeyID of(byte[] point) {
        return new KeyID(Bytes.sha256(point));
    }

    /** Parses a key id in base64 with padding. Returns null unless the text encodes 32 bytes. */
    public static KeyID parse(String base64) {
        byte[] digest = base64.length() == 44 ? Bytes.decodeBase64(base64) : null;
        return digest != null && digest.length == 32 ? new KeyID(digest) : null;
    }

    /** Returns the id in base64 with padding: the parameter {@code keyid} of a proof. */
    public String base64() {
        return Bytes.base64(digest);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof KeyID && Arrays.equals(digest, ((KeyID) other).digest);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(digest);
    }

    @Override
    public String toString() {
        return base64();
    }
}
