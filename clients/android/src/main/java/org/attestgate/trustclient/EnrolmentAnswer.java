package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** The service's answer to an {@link EnrolmentRequest}. */
public final class EnrolmentAnswer {
    /** Length limit of the content in bytes. Longer content is not from the service, so the rest need not be read. */
    public static final int CONTENT_LIMIT = 65_536;

    private final Long retryAfter;
    /** The statements about proofs, at the listener for enrolled devices. */
    private final GatewayAnswer statements;
    private final String text;
    /** The content as a JSON object, or null. */
    private final Map<String, Object> content;

    /** As {@link #EnrolmentAnswer(int, String, String, List, byte[])}, for a client that does not make proofs. */
    public EnrolmentAnswer(int status, String date, String retryAfter, byte[] content) {
        this(status, date, retryAfter, Collections.emptyList(), content);
    }

    /**
     * Creates an answer.
     *
     * @param date the value of Date, or null
     * @param retryAfter the value of Retry-After, or null
     * @param acceptSignature the values of all lines of Accept-Signature, in order
     * @param content the response's content, whatever its status
     */
    public EnrolmentAnswer(
        int status, String date, String retryAfter, List<String> acceptSignature, byte[] content) {
        statements = new GatewayAnswer(status, acceptSignature, date, content);
        // RFC 9110 section 10.2.3 also permits a date, but the service sends seconds.
        this.retryAfter = retryAfter != null && retryAfter.matches("[0-9]{1,9}") ? Long.valueOf(retryAfter) : null;
        text = content.length <= CONTENT_LIMIT ? Bytes.text(content) : "";
        this.content = Json.object(text);
    }

    public int status() {
        return statements.status();
    }

    /** The service's time in seconds since 1970, or null. */
    public Long date() {
        return statements.date();
    }

    GatewayAnswer statements() {
        return statements;
    }

    /** The nonce in the answer to {@code GET /nonce}, or null. */
    EnrolmentNonce nonce() {
        return status() == 200 ? EnrolmentNonce.parse(Json.text(content, "nonce")) : null;
    }

    /** The certificate in the answer to {@code POST /key-binding}, or null. */
    EnrolledCertificate certificate() {
        List<String> texts = status() == 200 ? Json.texts(content, "certificate_chain") : null;
        Long expiresAt = Json.integer(content, "expires_at");
        if (texts == null || texts.isEmpty() || expiresAt == null) return null;
        List<byte[]> chain = new ArrayList<>();
        for (String text : texts) {
            byte[] certificate = Bytes.decodeBase64(text);
            if (certificate == null) return null;
            chain.add(certificate);
        }
        return EnrolledCertificate.parse(chain, expiresAt);
    }

    /** The list in the answer to {@code GET /instances}, or null. */
    List<DeviceInstance> instances() {
        List<Map<String, Object>> listed = status() == 200 ? Json.objects(text) : null;
        if (listed == null) return null;
        List<DeviceInstance> instances = new ArrayList<>();
        for (Map<String, Object> each : listed) {
            DeviceInstance instance = DeviceInstance.parse(each);
            if (instance == null) return null;
            instances.add(instance);
        }
        return instances;
    }

    /** The posture in the answer to {@code POST /attestation}, or null. */
    AttestedPosture posture() {
        boolean isPosture = status() == 200 && content != null && content.get("posture") instanceof Map;
        return isPosture ? new AttestedPosture(text, Json.text(content, "device_token")) : null;
    }

    /** The refusal, for a status of 300 or above. */
    EnrolmentRefusal refusal() {
        EnrolmentRefusal.Code code = EnrolmentRefusal.Code.of(Json.text(content, "error"));
        return new EnrolmentRefusal(
            status(), code, code == null ? statements.denial() : null, retryAfter,
            Json.text(content, "error_description"));
    }
}
