package org.attestgate.trustclient;

/** A nonce of the service: base64url, to be returned unchanged. */
final class EnrolmentNonce {
    final String text;
    /** The decoded bytes. */
    final byte[] bytes;

    private EnrolmentNonce(String text, byte[] bytes) {
        this.text = text;
        this.bytes = bytes;
    }

    /** Parses a nonce. Returns null for another form, which could need escapes in JSON. */
    static EnrolmentNonce parse(String text) {
        if (text == null || text.length() < 22 || text.length() > 128) return null;
        byte[] bytes = Bytes.decodeBase64URL(text);
        return bytes == null ? null : new EnrolmentNonce(text, bytes);
    }
}
