package org.attestgate.trustclient;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The service's answer to an {@link EnrolmentRequest}. */
public final class EnrolmentAnswer {
    /** Length limit of the content in bytes. Longer content is not from the service, so the rest need not be read. */
    public static final int CONTENT_LIMIT = 65_536;

    private final int status;
    private final Long date;
    private final Long retryAfter;
    /** The content as a JSON object, or null. */
    private final Map<String, Object> content;

    /**
     * Creates an answer.
     *
     * @param date the value of Date, or null
     * @param retryAfter the value of Retry-After, or null
     * @param content the response's content, whatever its status
     */
    public EnrolmentAnswer(int status, String date, String retryAfter, byte[] content) {
        this.status = status;
        this.date = HttpDate.seconds(date);
        // RFC 9110 section 10.2.3 also permits a date, but the service sends seconds.
        this.retryAfter = retryAfter != null && retryAfter.matches("[0-9]{1,9}") ? Long.valueOf(retryAfter) : null;
        this.content = content.length <= CONTENT_LIMIT ? Json.object(Bytes.text(content)) : null;
    }

    public int status() {
        return status;
    }

    /** The service's time in seconds since 1970, or null. */
    public Long date() {
        return date;
    }

    /** The nonce in the answer to {@code GET /nonce}, or null. */
    EnrolmentNonce nonce() {
        return status == 200 ? EnrolmentNonce.parse(Json.text(content, "nonce")) : null;
    }

    /** The certificate in the answer to {@code POST /key-binding}, or null. */
    EnrolledCertificate certificate() {
        List<String> texts = status == 200 ? Json.texts(content, "certificate_chain") : null;
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

    /** The refusal, for a status of 300 or above. */
    EnrolmentRefusal refusal() {
        return new EnrolmentRefusal(
            status, EnrolmentRefusal.Code.of(Json.text(content, "error")), retryAfter,
            Json.text(content, "error_description"));
    }
}
