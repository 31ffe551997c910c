package org.attestgate.trustclient;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Base64;

/** Hashes and encodings of bytes. */
final class Bytes {
    private Bytes() {}

    /** Returns the SHA-256 of the concatenated parts, 32 bytes. */
    static byte[] sha256(byte[]... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (byte[] part : parts) digest.update(part);
            return digest.digest();
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every Java platform has SHA-256", error);
        }
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] utf8) {
        return new String(utf8, StandardCharsets.UTF_8);
    }

    static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** Returns base64url without padding. */
    static String base64URL(byte[] bytes) {
        return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
    }

    /** Returns the decoded bytes, or null unless the text is base64url in its one spelling without padding. */
    static byte[] decodeBase64URL(String text) {
        try {
            byte[] bytes = Base64.getUrlDecoder().decode(text);
            return base64URL(bytes).equals(text) ? bytes : null;
        } catch (IllegalArgumentException malformed) {
            return null;
        }
    }

    /** Returns the decoded bytes, or null for text that is not base64. */
    static byte[] decodeBase64(String text) {
        try {
            return Base64.getDecoder().decode(text);
        } catch (IllegalArgumentException malformed) {
            return null;
        }
    }
}
