package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.List;

/** The JWT by which a hardware key delegates its trust to a certificate key. It is created, asserted, then signed. */
final class KeyBindingToken {
    /** The lifetime in the token, in seconds from {@code iat}: the service's maximum. */
    private static final long LIFE = 300;
    private static final int ADMISSION_TOKEN_LIMIT = 8_192;
    private static final int INTEGRITY_TOKEN_LIMIT = 16_384;

    private final EnrolmentServiceAddress service;
    private final EnrolmentNonce nonce;
    private final String tag;
    private final byte[] point;
    private final List<byte[]> keyAttestation;
    private final String admissionToken;
    private final String integrityToken;
    private final String thumbprint;

    /**
     * Creates a token.
     *
     * @param point the point of the certificate key, 65 bytes
     * @param keyAttestation the attestation of the certificate key in DER, leaf first, or null
     * @param admissionToken a JWS in compact form, or null
     * @param integrityToken a JWE in compact form, or null
     */
    KeyBindingToken(
        EnrolmentServiceAddress service, EnrolmentNonce nonce, String tag, byte[] point, List<byte[]> keyAttestation,
        String admissionToken, String integrityToken) {
        this.service = service;
        this.nonce = nonce;
        this.tag = tag;
        this.point = point;
        this.keyAttestation = keyAttestation;
        this.admissionToken = admissionToken;
        this.integrityToken = integrityToken;
        thumbprint = P256.thumbprint(point);
    }

    byte[] point() {
        return point;
    }

    /** Returns the bytes that the hardware key signs, in this order and without white space. */
    byte[] clientData(long counter) {
        return Bytes.utf8(
            "{\"nonce\":\"" + nonce.text + "\",\"jwk_thumbprint\":\"" + thumbprint + "\",\"counter\":" + counter + "}");
    }

    /**
     * Returns the text that the certificate key signs. No value needs escapes: URLs were checked, and the rest is
     * base64url.
     *
     * @param signature the hardware key's signature over the client data, in DER
     * @param issuedAt the time by the service's clock, in seconds since 1970
     */
    String signingInput(long counter, byte[] signature, long issuedAt) {
        String header = "{\"alg\":\"ES256\",\"kid\":\"" + thumbprint + "\",\"typ\":\"rp-kb+jwt\"}";
        StringBuilder claims = new StringBuilder();
        claims.append("{\"iss\":\"").append(service.provider()).append("/instance/").append(thumbprint);
        claims.append("\",\"aud\":\"").append(service.provider());
        claims.append("\",\"iat\":").append(issuedAt).append(",\"exp\":").append(issuedAt + LIFE);
        claims.append(",\"nonce\":\"").append(nonce.text).append("\",\"hardware_key_tag\":\"").append(tag);
        claims.append("\",\"hardware_signature\":\"").append(Bytes.base64URL(signature));
        claims.append("\",\"counter\":").append(counter);
        if (keyAttestation != null) claims.append(",\"mtls_key_attestation\":").append(list(keyAttestation));
        if (integrityToken != null) claims.append(integrityMember(integrityToken));
        if (admissionToken != null) claims.append(",\"admission_token\":\"").append(admissionToken).append('"');
        claims.append(",\"cnf\":{\"jwk\":{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"").append(P256.x(point));
        claims.append("\",\"y\":\"").append(P256.y(point)).append("\"}}}");
        return Bytes.base64URL(Bytes.utf8(header)) + "." + Bytes.base64URL(Bytes.utf8(claims.toString()));
    }

    /**
     * Returns the content of {@code POST /key-binding}.
     *
     * @param signature the certificate key's signature over the signing input, in DER
     * @return null if the signature is malformed
     */
    static byte[] content(String signingInput, byte[] signature) {
        // JOSE uses r and s of 32 bytes each (RFC 7518 section 3.4).
        byte[] fixedWidth = P256.fixedWidth(signature);
        if (fixedWidth == null) return null;
        return Bytes.utf8("{\"assertion\":\"" + signingInput + "." + Bytes.base64URL(fixedWidth) + "\"}");
    }

    /** Returns the content of {@code POST /instance-initialization}. All values are base64url. */
    static byte[] initialization(EnrolmentNonce nonce, String tag, List<byte[]> chain, String integrityToken) {
        return Bytes.utf8(
            "{\"nonce\":\"" + nonce.text + "\",\"hardware_key_tag\":\"" + tag + "\",\"key_attestation\":" + list(chain)
                + (integrityToken == null ? "" : integrityMember(integrityToken)) + "}");
    }

    static String integrityMember(String token) {
        return ",\"play_integrity_token\":\"" + token + '"';
    }

    static boolean isAdmissionToken(String text) {
        return isCompact(text, 3, ADMISSION_TOKEN_LIMIT);
    }

    static boolean isIntegrityToken(String text) {
        return isCompact(text, 5, INTEGRITY_TOKEN_LIMIT);
    }

    /** Returns whether the text is a JWS or JWE in compact form, which needs no escapes in JSON. */
    private static boolean isCompact(String text, int count, int limit) {
        String[] parts = text.split("\\.", -1);
        if (text.length() > limit || parts.length != count) return false;
        for (String part : parts) if (Bytes.decodeBase64URL(part) == null) return false;
        return true;
    }

    static String list(List<byte[]> certificates) {
        List<String> texts = new ArrayList<>();
        for (byte[] certificate : certificates) texts.add(Json.quote(Bytes.base64URL(certificate)));
        return "[" + String.join(",", texts) + "]";
    }
}
