package org.attestgate.trustclient;

import java.security.PublicKey;
import java.util.Arrays;

/** The forms of P-256 keys and signatures that differ between Java and the protocol. */
public final class P256 {
    /** The length of an uncompressed point in bytes. */
    public static final int POINT_LENGTH = 65;
    private static final int NUMBER_LENGTH = 32;
    /** A SubjectPublicKeyInfo of P-256 up to its point (RFC 5480). */
    private static final byte[] INFO_START = {
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
        (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    };

    private P256() {}

    /** Returns the uncompressed point of a key, 65 bytes, or null if it is not of P-256. */
    public static byte[] point(PublicKey key) {
        byte[] info = key.getEncoded();
        if (info == null || info.length != INFO_START.length + POINT_LENGTH) return null;
        if (!Arrays.equals(Arrays.copyOf(info, INFO_START.length), INFO_START)) return null;
        byte[] point = Arrays.copyOfRange(info, INFO_START.length, info.length);
        return point[0] == 4 ? point : null;
    }

    /** Returns the SHA-256 thumbprint of a key in base64url (RFC 7638). An admission token names the key by it. */
    public static String thumbprint(byte[] point) {
        // The members of a JWK in the order of their names.
        return Bytes.base64URL(Bytes.sha256(Bytes.utf8(
            "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"" + x(point) + "\",\"y\":\"" + y(point) + "\"}")));
    }

    static String x(byte[] point) {
        return Bytes.base64URL(Arrays.copyOfRange(point, 1, 33));
    }

    static String y(byte[] point) {
        return Bytes.base64URL(Arrays.copyOfRange(point, 33, 65));
    }

    /**
     * Converts an ECDSA signature from DER, as {@link java.security.Signature} returns it, to r and s of 32 bytes each.
     *
     * @return null if the signature is malformed
     */
    static byte[] fixedWidth(byte[] der) {
        byte[] fixed = new byte[2 * NUMBER_LENGTH];
        if (der.length < 8 || der.length > 72 || der[0] != 0x30 || der[1] != der.length - 2) return null;
        int position = 2;
        for (int end = NUMBER_LENGTH; end <= fixed.length; end += NUMBER_LENGTH) {
            if (position + 2 > der.length || der[position] != 0x02) return null;
            int length = der[position + 1];
            int start = position + 2;
            position = start + length;
            if (length < 1 || position > der.length || der[start] < 0) return null;
            // The zero that keeps a number positive.
            if (der[start] == 0 && length > 1) {
                if (der[start + 1] >= 0) return null;
                start++;
                length--;
            }
            if (length > NUMBER_LENGTH) return null;
            System.arraycopy(der, start, fixed, end - length, length);
        }
        return position == der.length ? fixed : null;
    }
}
