package org.attestgate.trustclient;

import java.util.List;
import java.util.Map;

/** The statements of a response about proofs. */
public final class GatewayAnswer {
    /** Length limit of a refusal's content in bytes. Longer content is from a service. */
    public static final int DENIAL_LIMIT = 65_536;
    /** The status of a gRPC call, whose library does not show it. */
    public static final int NO_STATUS = 0;

    private final int status;
    private final AcceptSignature challenge;
    private final Long date;
    private final String denial;

    private GatewayAnswer(int status, String denial, List<String> acceptSignature, String date) {
        this.status = status;
        this.denial = denial;
        this.challenge = AcceptSignature.parse(acceptSignature);
        this.date = HttpDate.seconds(date);
    }

    /**
     * Parses a response.
     *
     * @param acceptSignature the values of all lines of Accept-Signature, in order
     * @param date the value of Date, or null
     * @param content the content of a response with status 400 or above. What is not the JSON of a refusal is ignored.
     */
    public GatewayAnswer(int status, List<String> acceptSignature, String date, byte[] content) {
        this(status, status < 400 || content.length > DENIAL_LIMIT ? null : code(content), acceptSignature, date);
    }

    /**
     * Parses the answer to a gRPC call, whose client sees metadata instead of status and content.
     *
     * @param denial the value of {@code attest-denial}, which no service can set. Null if the call was not refused.
     */
    public static GatewayAnswer ofCall(String denial, List<String> acceptSignature, String date) {
        return new GatewayAnswer(NO_STATUS, denial, acceptSignature, date);
    }

    /** The HTTP status. */
    public int status() {
        return status;
    }

    /** The challenge in the response, or null if it has none or this client cannot parse it. */
    public AcceptSignature challenge() {
        return challenge;
    }

    /** The gateway's time in seconds since 1970, or null. */
    public Long date() {
        return date;
    }

    /** The denial code, such as {@code proof_stale}. Null if the response is not a refusal by the gateway. */
    public String denial() {
        return denial;
    }

    /** Returns whether the gateway no longer knows the phone or its certificate: enrol and connect again, once. */
    public boolean needsEnrolment() {
        return "device_unknown".equals(denial) || "device_mismatch".equals(denial);
    }

    private static String code(byte[] content) {
        Map<String, Object> refusal = Json.object(Bytes.text(content));
        return Json.text(refusal, "error");
    }

    @Override
    public String toString() {
        return denial == null ? "status " + status : "status " + status + " " + denial;
    }
}
